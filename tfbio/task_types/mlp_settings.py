"""Checks the settings of an MLP in a head, `mlp_layers` and `mlp_size`, for the types with one."""

from tfbio.base.config import BaseSettings, require


def check_mlp(settings: BaseSettings, head: str) -> None:
    """Checks that a task type's settings of an MLP go with its head; returns nothing.

    Args:
      settings: the settings of the type, with `mlp_layers` and `mlp_size`.
      head: the name of the setting that chooses the head, such as "text_head".

    Raises:
      ConfigError: a setting of the MLP is changed, and the head is another than "mlp".
    """
    for name in ("mlp_layers", "mlp_size"):
        require(
            getattr(settings, head) == "mlp"
            or getattr(settings, name) == getattr(type(settings), name),
            f"{settings.group}{name} goes with {settings.group}{head} = mlp",
        )
