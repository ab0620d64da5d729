from nrmmix.draws import Draws
class MCMCResult:
    def __init__(self, model, run):
        self.model, self._run = model, run
        self.draws = run.draws; self.seconds=run.seconds
