import { createContext, useContext } from 'react';

/** Whether the wizard shows its last step, and the function by which this step reports it. */
export const ReviewShown = createContext<[boolean, (isShown: boolean) => void]>([false, () => undefined]);

export const useReviewShown = () => useContext(ReviewShown);
