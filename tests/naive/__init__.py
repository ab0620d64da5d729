"""References for the compiled kernels: plain NumPy and SciPy, written from the formulas, slow and readable.

Nothing is cached, updated in place or cancelled against anything else: every conditional is a ratio of whole joint densities,
the mass is integrated out by quadrature, and the Gaussian family works in the units of the data with moment formulas.
Trees have modules of their own, `naive.trees` and `naive.searches`.
"""

from exact.enumeration import partitions

from naive.gaussian import Base, log_marginal, log_predictive, posterior
from naive.measures import (
    box,
    factorial_coefficients,
    log_crp,
    log_eppf,
    log_eppf_given_u,
    log_kappa,
    log_u_integral,
    mixture_weights,
    psi,
    psi1,
    seat,
    squared_exponential,
)
from naive.problems import (
    Point,
    Problem,
    all_joint_states,
    canonical,
    gibbs_conditional_without_locations,
    location_conditional,
    log_density_mass,
    log_density_scale,
    log_density_sigma,
    log_density_stretch,
    log_density_v,
    log_density_width,
    log_h,
    log_joint,
    log_likelihood,
    log_measure,
    log_posterior,
    predictive_weights,
    reach,
    split_merge,
)

__all__ = [
    "Base", "Point", "Problem", "all_joint_states", "box", "canonical", "factorial_coefficients", "gibbs_conditional_without_locations",
    "location_conditional", "log_crp", "log_density_mass", "log_density_scale", "log_density_sigma", "log_density_stretch",
    "log_density_v", "log_density_width", "log_eppf", "log_eppf_given_u", "log_h", "log_joint", "log_kappa", "log_likelihood",
    "log_marginal", "log_measure", "log_posterior", "log_predictive", "log_u_integral", "mixture_weights", "partitions", "posterior",
    "predictive_weights", "psi", "psi1", "reach", "seat", "split_merge", "squared_exponential",
]
