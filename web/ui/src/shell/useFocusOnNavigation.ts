import { useEffect, useRef } from 'react';
import { useLocation } from 'react-router-dom-v5-compat';

/** The id of the element with the page's content. */
export const mainId = 'main';

/**
 * Moves the focus to the content when another page is shown, so that keyboards and screen readers
 * continue there. A page that has focused a field of its own keeps it.
 */
export const useFocusOnNavigation = (): void => {
  const { pathname } = useLocation();
  const last = useRef(pathname);
  useEffect(() => {
    if (last.current === pathname) {
      return;
    }
    last.current = pathname;
    focusContent();
  }, [pathname]);
};

/** Moves the focus to the content, unless an element of the content has it. */
export const focusContent = (): void => {
  const main = document.getElementById(mainId);
  if (main && !main.contains(document.activeElement)) {
    main.focus({ preventScroll: true });
    main.scrollTop = 0;
  }
};
