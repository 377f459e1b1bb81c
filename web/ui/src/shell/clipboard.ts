/**
 * Provides `navigator.clipboard` where the browser has none. Browsers offer the clipboard to pages
 * over HTTPS or from localhost only. The appliance is mostly opened over plain HTTP at an address
 * of the site, where every copy button would fail. This implementation copies a selection with
 * `execCommand`.
 */
export const provideClipboard = (page: Window): void => {
  if ('clipboard' in page.navigator) {
    return;
  }
  const writeText = (text: string): Promise<void> =>
    copyBySelection(page.document, text)
      ? Promise.resolve()
      : Promise.reject(new Error('The browser does not permit the page to copy.'));
  Object.defineProperty(page.navigator, 'clipboard', { configurable: true, value: { writeText } });
};

const copyBySelection = (document: Document, text: string): boolean => {
  const area = document.createElement('textarea');
  area.value = text;
  area.style.position = 'fixed';
  area.style.opacity = '0';
  // A dialog keeps the focus inside itself.
  const dialogs = document.querySelectorAll('[role="dialog"]');
  (dialogs[dialogs.length - 1] ?? document.body).append(area);
  area.select();
  // eslint-disable-next-line @typescript-eslint/no-deprecated -- the only method with plain HTTP
  const copied = document.execCommand('copy');
  area.remove();
  return copied;
};
