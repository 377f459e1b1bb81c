import Axios from 'axios';

const pauseMilliseconds = 1_000;

const pause = () =>
  new Promise<void>((resume) => {
    setTimeout(resume, pauseMilliseconds);
  });

/**
 * Sends a request once a second until the appliance responds, with success or failure. It is for
 * requests that the library sends only once. If such a request failed during a restart of the
 * appliance, the page would stay broken. The banner shows that the appliance does not respond.
 */
export const untilAnswered = async <T>(load: () => Promise<T>): Promise<T> => {
  for (;;) {
    try {
      return await load();
    } catch (error) {
      if (Axios.isCancel(error) || !Axios.isAxiosError(error) || error.response) {
        throw error;
      }
    }
    await pause();
  }
};
