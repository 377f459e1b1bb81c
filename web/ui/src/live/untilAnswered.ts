import Axios from 'axios';

const pauseMilliseconds = 1_000;

const pause = () =>
  new Promise<void>((resume) => {
    setTimeout(resume, pauseMilliseconds);
  });

/**
 * Asks once a second until the appliance answers, whatever it says: for what the library asks only once, and shows a page
 * that stays broken where that falls into a restart. The banner says meanwhile that the appliance is away.
 */
export const untilAnswered = async <T>(ask: () => Promise<T>): Promise<T> => {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (Axios.isCancel(error) || !Axios.isAxiosError(error) || error.response) {
        throw error;
      }
    }
    await pause();
  }
};
