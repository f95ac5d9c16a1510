"""The peers, in the order of the table. Each file says how one of them is used, as its own documentation tells."""
from . import crond, nq, plain, pm2, pueue, qinglet, s6, supervisord, tsp

ALL = [plain.Plain, qinglet.Qinglet, tsp.Tsp, nq.Nq, s6.S6, supervisord.Supervisord, pueue.Pueue, pm2.Pm2, crond.Crond]
