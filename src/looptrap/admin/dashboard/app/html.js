// Preact and htm: every module imports its markup and hooks from here.

import { Fragment, h, render } from "../vendor/preact/preact.js";
import htm from "../vendor/htm/htm.js";

export const html = htm.bind(h);
export { Fragment, render };
export {
  useCallback,
  useEffect,
  useErrorBoundary,
  useId,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "../vendor/preact/hooks.js";
