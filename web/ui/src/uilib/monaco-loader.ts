import * as monaco from 'monaco-editor/esm/vs/editor/editor.api';

/** The reason that a cancelled `init` gives; the editor's component knows it by this. */
const cancelled = { type: 'cancelation', msg: 'operation is manually canceled' };

/**
 * Stands in for `@monaco-editor/loader`, which loads the editor from a public CDN: here it is part of the application.
 */
const loader = {
  init: () => {
    const cancelling = new AbortController();
    const ready = new Promise<typeof monaco>((resolve, reject) => {
      cancelling.signal.addEventListener('abort', () => {
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- what the component looks for
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
