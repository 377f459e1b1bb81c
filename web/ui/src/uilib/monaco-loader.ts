import * as monaco from 'monaco-editor/esm/vs/editor/editor.api';

/** The error of a cancelled `init`; the editor's component recognizes it by these fields. */
const cancelled = { type: 'cancelation', msg: 'operation is manually canceled' };

/**
 * Replaces `@monaco-editor/loader`, which loads the editor from a public CDN. Here the editor is
 * part of the application.
 */
const loader = {
  init: () => {
    const cancelling = new AbortController();
    const ready = new Promise<typeof monaco>((resolve, reject) => {
      cancelling.signal.addEventListener('abort', () => {
        // The component expects this value instead of an Error.
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors
        reject(cancelled);
      });
      queueMicrotask(() => {
        resolve(monaco);
      });
    });
    return Object.assign(ready, {
      cancel: () => {
        cancelling.abort();
      },
    });
  },
};

export default loader;
