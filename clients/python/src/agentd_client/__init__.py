"""A typed client of agent servers, such as agentd."""

from .client import AsyncClient, Client
from .environment import ParallelEnvironment, VectorEnvironment, World
from .errors import AgentServerError, ContractError, NetworkError, StatusError
from .models import (
    AgentError,
    Candidate,
    CoachingLog,
    CoachingProposal,
    CoachingResponse,
    Decision,
    Info,
    Input,
    Instruction,
    ToolCall,
    tool,
)
from .record import Recorder
from .retry import Retry
from .rollouts import Rollout, Rollouts
from .wire import CoachingRequest, SessionConfig

__version__ = "0.1.0"

__all__ = [
    "AgentError",
    "AgentServerError",
    "AsyncClient",
    "Candidate",
    "Client",
    "CoachingLog",
    "CoachingProposal",
    "CoachingRequest",
    "CoachingResponse",
    "ContractError",
    "Decision",
    "Info",
    "Input",
    "Instruction",
    "NetworkError",
    "ParallelEnvironment",
    "Recorder",
    "Retry",
    "Rollout",
    "Rollouts",
    "SessionConfig",
    "StatusError",
    "ToolCall",
    "VectorEnvironment",
    "World",
    "tool",
]
