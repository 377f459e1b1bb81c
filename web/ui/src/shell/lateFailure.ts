/** The DOM event, on `window`, about a request that failed after its dialog was closed. */
export const lateFailureEvent = 'landfall:late-failure';

export type LateFailure = {
  /** The title of the dialog. */
  dialog: string;
  sentence: string;
};

export const reportLateFailure = (failure: LateFailure): void => {
  window.dispatchEvent(new CustomEvent(lateFailureEvent, { detail: failure }));
};
