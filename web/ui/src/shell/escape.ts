const openList = '[role="dialog"] [aria-expanded="true"][class*="menu-toggle"]';

/**
 * Lets Escape close an open list of a dialog, and not the dialog with its input. Dialogs listen at
 * the document, before the lists do.
 */
export const guardEscape = (page: Window): void => {
  page.addEventListener(
    'keydown',
    (event) => {
      if (event.key !== 'Escape') {
        return;
      }
      const toggle = page.document.querySelector<HTMLElement>(openList);
      if (toggle) {
        event.stopImmediatePropagation();
        toggle.click();
        toggle.focus();
      }
    },
    true,
  );
};
