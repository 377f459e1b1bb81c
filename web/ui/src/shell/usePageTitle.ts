import { useEffect } from 'react';

/** Sets the title of the browser's window. */
export const usePageTitle = (title: string): void => {
  useEffect(() => {
    document.title = `${title} · Landfall`;
  }, [title]);
};
