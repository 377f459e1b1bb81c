// Parts of the page that several tests use.

/** Waits until a page has its answers. */
export const loaded = (page) =>
  page.getByRole('progressbar', { name: /^(Loading|Reading)/ }).first().waitFor({ state: 'detached' });

/** Waits until a page shows its heading and has its answers. */
export const complete = async (page) => {
  await page.locator('h1, h2').first().waitFor();
  await loaded(page);
};

/**
 * Returns functions that find parts of the page. Those with the parameter `on` can also find them
 * on another page.
 * @param current returns the page of the test, which does not exist yet when the test is declared
 */
export const controls = (current) => {
  const button = (name, on = current()) => on.getByRole('button', { name, exact: true });
  return {
    button,
    heading: (name, on = current()) => on.getByRole('heading', { name, exact: true }),
    /** Clicks on the wizard's Next when it is enabled. */
    next: () => button('Next').click(),
    /** Returns the id of the cluster that the page shows. */
    clusterId: () => new URL(current().url()).pathname.split('/')[3],
  };
};
