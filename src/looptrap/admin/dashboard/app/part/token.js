// The dialog for the token of the API, which is stored for this tab only.

import { asking, unlock } from "../api.js";
import { html } from "../html.js";
import { useObserved } from "../observed.js";
import { Confirm, Field } from "./dialog.js";

export function TokenDialog() {
  const request = useObserved(asking);
  if (!request) return null;
  return html`
    <${Confirm}
      key=${request.turn}
      title="Token needed"
      verb="Sign in"
      consequences=${
        request.isWrong
          ? "This token is wrong. Enter your own, or the value of the variable that admin_token_env or read_token_env names."
          : "This gateway needs a token. Enter your own, or the value of the variable that admin_token_env or read_token_env names. It is stored in this tab only."
      }
      onConfirm=${({ token }) => unlock(token.trim())}
      onClose=${() => unlock("")}
    >
      <${Field} label="Token">
        <input name="token" type="password" autocomplete="current-password" required autofocus />
      <//>
    <//>
  `;
}
