/**
 * Browsers offer the clipboard only to pages from HTTPS or from their own machine. The appliance is mostly reached by
 * plain HTTP at a site's address, where every copy button would fail: there, copying goes the old way.
 */
export const provideClipboard = (page: Window): void => {
  if ('clipboard' in page.navigator) {
    return;
  }
  const writeText = (text: string): Promise<void> =>
    copyBySelection(page.document, text)
      ? Promise.resolve()
      : Promise.reject(new Error('The browser did not let the page copy.'));
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
  // eslint-disable-next-line @typescript-eslint/no-deprecated -- the one way that plain HTTP leaves
  const copied = document.execCommand('copy');
  area.remove();
  return copied;
};
