"""What families of one's own need, by its former path; all of it is in `nrmmix.extending`."""

from nrmmix.model.families import *  # noqa: F403
