import { useIsLimited, useMay } from '../access/AccessProvider';

/** Whether the person at the page may create clusters. A new cluster is in the scope of nobody. */
export const useMayCreate = (): boolean => {
  const isLimited = useIsLimited();
  return useMay('operator') && !isLimited;
};
