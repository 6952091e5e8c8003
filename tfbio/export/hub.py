"""Pushes the folder of a converted model to the Hugging Face hub, for `--push` of `tfbio.convert`.

`huggingface_hub` speaks to the hub; its environment variables count, such as HF_ENDPOINT for
another server.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator

import huggingface_hub
from huggingface_hub import constants
from huggingface_hub.errors import (
    HfHubHTTPError,
    HFValidationError,
    HTTPError,
    OfflineModeIsEnabled,
)
from huggingface_hub.utils import validate_repo_id

import tfbio
from tfbio.base import messages
from tfbio.base.errors import UsageError, UserError


class HubError(UserError):
    """An error of the hub: it cannot be reached, there is no token, or it refuses the model."""


def check_name(flag: str, name: str) -> None:
    """Checks that a flag's value can be the name of a repository on the hub; returns nothing.

    Args:
      flag: the name of the flag, for the message.
      name: the value, such as "me/my-model".

    Raises:
      UsageError: it cannot be one.
    """
    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise UsageError(
            f"--{flag}={name} is no name of a repository on the hub: expected OWNER/NAME, with "
            "letters, digits, '-', '_' and '.'."
        ) from error


def require_token() -> None:
    """Checks that there is a token for the hub, before the work begins; returns nothing.

    It is that of HF_TOKEN, or of `hf auth login`. It is not shown.

    Raises:
      HubError: there is none.
    """
    if not huggingface_hub.get_token():
        raise HubError(
            f"--push needs a token that may write to {constants.ENDPOINT}: set HF_TOKEN, or run "
            "`hf auth login`."
        )


def push(folder: str, repo: str, private: bool) -> str:
    """Pushes a folder to a repository on the hub, which is made if it does not exist.

    Files of the same names are replaced; others in the repository stay.

    Args:
      folder: the folder of a model, all of whose files are pushed.
      repo: the name of the repository, "OWNER/NAME".
      private: True if others must not see it.

    Returns:
      The address of the repository.

    Raises:
      HubError: there is no token, the hub cannot be reached, it refuses the token or the files, or
        the repository is there already and public, and `private` is true.
    """
    require_token()
    api = huggingface_hub.HfApi(library_name="tfbio", library_version=tfbio.__version__)
    with _errors_in_a_sentence(folder, repo, private):
        url = api.create_repo(repo, private=private or None, exist_ok=True)
        if private and not api.model_info(repo).private:
            raise HubError(
                f"--private: {url} is there already, and public: make it private in its settings, "
                "or give another name."
            )
        api.upload_folder(
            repo_id=repo, folder_path=folder, commit_message=f"Model of tfbio {tfbio.__version__}"
        )
    return str(url)


@contextlib.contextmanager
def _errors_in_a_sentence(folder: str, repo: str, private: bool) -> Iterator[None]:
    """Turns the errors of `huggingface_hub` into a `HubError`, which says that the folder stays."""
    try:
        yield
    except (HTTPError, OfflineModeIsEnabled, RuntimeError) as error:
        # The upload of a large file wraps what went wrong.
        cause = error.__cause__ if type(error) is RuntimeError else error
        # Without it the repository would be made public.
        command = ["hf", "upload", repo, folder, *(["--private"] if private else [])]
        raise HubError(
            f"--push={repo}: {_reason(cause or error)}. The folder {os.path.abspath(folder)} "
            f"is complete: `{shlex.join(command)}` pushes it, too."
        ) from error


def _reason(error: BaseException) -> str:
    """Returns why the hub did not take a model, as a part of a sentence."""
    where = constants.ENDPOINT
    if isinstance(error, HfHubHTTPError):
        status = error.response.status_code
        if status == 401:
            return f"{where} does not know the token: make one at {where}/settings/tokens"
        if status == 403:
            return f"the token may not write there: {where}/settings/tokens gives it the right"
        return f"{where} answers {status} ({error.server_message or 'without a reason'})"
    if isinstance(error, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set: unset it"
    return f"{where} cannot be reached ({messages.first_line(error)})"
