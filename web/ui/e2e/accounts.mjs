// People with accounts at the page.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { controls } from './controls.mjs';

/** The password of all accounts in the tests. */
export const password = 'correct horse battery';

const { button } = controls();

/** The button with the menu of a person's account. */
export const account = (name, on) => button(`Account ${name}`, on);

/** Fills the login on a page. */
export const logIn = async (on, name, secret = password) => {
  await on.locator('#name').fill(name);
  await on.locator('#password').fill(secret);
  await button('Log in', on).click();
};

/**
 * Makes the first administrator of a site on a page, and a token with which the test sends its
 * requests.
 */
export const setUp = async (site, on, name) => {
  await on.goto(site.url);
  await on.locator('#code').fill((await readFile(join(site.data, 'setup-code'), 'utf8')).trim());
  await on.locator('#name').fill(name);
  await on.locator('#password').fill(password);
  await button('Create the account', on).click();
  await account(name, on).waitFor();
  site.use(
    await on.evaluate(async () => {
      const response = await fetch('/api/landfall/v1/tokens', {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ name: 'tests', role: 'admin' }),
      });
      return (await response.json()).token;
    }),
  );
};
