// The page's Content-Security-Policy has no 'unsafe-inline': the browser ignores <style> elements
// and style attributes in HTML texts. It does not restrict style sheets and properties that a
// script sets. This module lets the code editor use these.

/**
 * Replaces the <style> elements of the editor: returns an element with the members of a <style>
 * element that the editor uses, on top of a constructed style sheet.
 */
export const styleElement = (): HTMLElement => {
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets.push(sheet);
  const element = document.createElement('meta');
  Object.defineProperties(element, {
    sheet: { value: sheet },
    textContent: {
      get: () => [...sheet.cssRules].map(({ cssText }) => cssText).join('\n'),
      set: (css: string) => {
        sheet.replaceSync(css);
      },
    },
    remove: {
      value: () => {
        document.adoptedStyleSheets = document.adoptedStyleSheets.filter((other) => other !== sheet);
        Element.prototype.remove.call(element);
      },
    },
  });
  return element;
};

const held = 'data-style';

/** Renames the style attributes of an HTML text. The text of elements contains no "<". */
export const holdStyles = (html: string): string =>
  html.replace(/<[a-z][^<>]*>/gi, (tag) => tag.replace(/ style="/g, ` ${held}="`));

const applyStyles = (root: Element) => {
  for (const element of [root, ...root.querySelectorAll<HTMLElement>(`[${held}]`)]) {
    const css = element.getAttribute(held);
    if (css !== null && element instanceof HTMLElement) {
      element.style.cssText = css;
      element.removeAttribute(held);
    }
  }
};

type Options = { createHTML?: (html: string) => string };

/** Replaces the editor's Trusted Types policies, through which it passes all its HTML texts. */
export const policy = (_name: string, options?: Options) => ({
  ...options,
  createHTML: (html: string) => holdStyles(options?.createHTML?.(html) ?? html),
});

/**
 * Sets the styles of all elements that are added with renamed style attributes, before they are
 * shown.
 */
export const applyHeldStyles = (): void => {
  new MutationObserver((records) => {
    for (const { addedNodes } of records) {
      for (const node of addedNodes) {
        if (node instanceof Element) {
          applyStyles(node);
        }
      }
    }
  }).observe(document.body, { childList: true, subtree: true });
};
