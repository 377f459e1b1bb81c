import type { ReactElement } from 'react';
import { flushSync } from 'react-dom';
import { createRoot } from 'react-dom/client';

// jsdom has no layout.
Element.prototype.scrollIntoView = () => undefined;

/** Shows an element in the document of jsdom. Returns what removes it. */
export const show = (element: ReactElement): (() => void) => {
  const place = document.body.appendChild(document.createElement('div'));
  const root = createRoot(place);
  flushSync(() => {
    root.render(element);
  });
  return () => {
    root.unmount();
    place.remove();
  };
};

/** The button with a name. */
export const button = (name: string): HTMLButtonElement => {
  const found = [...document.querySelectorAll('button')].find(
    (one) => (one.ariaLabel ?? one.textContent.trim()) === name,
  );
  if (!found) {
    throw new Error(`there is no button ${name}`);
  }
  return found;
};

export const press = (name: string) => {
  flushSync(() => {
    button(name).click();
  });
};

/** Replaces the text of the field that a selector matches. */
export const type = (selector: string, text: string) => {
  const input = document.querySelector<HTMLInputElement | HTMLTextAreaElement>(selector);
  if (!input) {
    throw new Error(`there is no input ${selector}`);
  }
  // React overrides the property of the element itself, and would take the text for its own.
  const { prototype } = input instanceof HTMLInputElement ? HTMLInputElement : HTMLTextAreaElement;
  Object.getOwnPropertyDescriptor(prototype, 'value')?.set?.call(input, text);
  flushSync(() => {
    input.dispatchEvent(new Event('input', { bubbles: true }));
  });
};

/** Chooses the option with a value in the list that a selector matches. */
export const choose = (selector: string, value: string) => {
  const option = document.querySelector<HTMLOptionElement>(`${selector} option[value="${value}"]`);
  if (!option) {
    throw new Error(`there is no option ${value} in ${selector}`);
  }
  option.selected = true;
  flushSync(() => {
    option.parentElement?.dispatchEvent(new Event('change', { bubbles: true }));
  });
};
