// Debian's Chromium with a page that records what must not happen: requests to other origins and
// uncaught errors. CHROMIUM sets another browser. SCREENSHOTS sets a directory for screenshots of
// all steps; without it, only failed steps have one, in screenshots/.

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

/** How long a step waits for the page. It is long, because the machine may be busy. */
const patience = 60_000;

const ofAllSteps = process.env.SCREENSHOTS !== undefined;
const screenshots = process.env.SCREENSHOTS ?? fileURLToPath(new URL('../../../screenshots', import.meta.url));

/**
 * Opens a page for the site at this address. The names of screenshots begin with the name of the
 * test.
 */
export const openBrowser = async (siteUrl, test = 'install') => {
  await mkdir(screenshots, { recursive: true });
  const browser = await chromium.launch({
    timeout: patience,
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
  // The browser does not know the authority of an appliance with TLS.
  const settings = { viewport: { width: 1440, height: 1000 }, ignoreHTTPSErrors: true };
  const context = await browser.newContext(settings);
  await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: siteUrl });
  context.setDefaultTimeout(patience);
  const foreign = [];
  const errors = [];
  context.on('request', (request) => {
    const { origin, protocol } = new URL(request.url());
    if (origin !== siteUrl && protocol !== 'data:' && protocol !== 'blob:') {
      foreign.push(`${request.method()} ${request.url()}`);
    }
  });
  context.on('weberror', (error) => {
    errors.push(error.error().stack ?? String(error.error()));
  });
  const messages = [];
  context.on('console', (message) => {
    messages.push(`${message.type()}: ${message.text()}`);
    if (/Content Security Policy/i.test(message.text())) {
      errors.push(message.text());
    }
  });
  const page = await context.newPage();
  let count = 0;
  return {
    page,
    /** Opens a context of another person, without the cookies of this one. */
    another: async () => {
      const other = await browser.newContext(settings);
      other.setDefaultTimeout(patience);
      return other;
    },
    foreign,
    errors,
    /** The output of the page's console, for a failed test. */
    output: () => messages.slice(-20).join('\n'),
    /**
     * Takes a screenshot of the page, or of another one. The name of a failed step begins with
     * FAILED.
     */
    screenshot: async (name, of = page) => {
      count += 1;
      if (!ofAllSteps && !name.startsWith('FAILED')) {
        return;
      }
      const path = join(screenshots, `${test}-${String(count).padStart(2, '0')}-${name}.png`);
      // It is for people; a test does not depend on it.
      await of.screenshot({ path }).catch((error) => messages.push(`no screenshot ${name}: ${String(error)}`));
    },
    close: async () => {
      // A request of the page that a test answers may still run. Its answer fails without the page.
      const routed = browser.contexts().flatMap((one) => [one, ...one.pages()]);
      await Promise.all(routed.map((one) => one.unrouteAll({ behavior: 'ignoreErrors' })));
      await browser.close();
    },
  };
};
