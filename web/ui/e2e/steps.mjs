// Test steps that depend on each other.

import assert from 'node:assert/strict';
import { it } from 'node:test';

/**
 * Creates the function that adds a step. A step takes a screenshot when it ends; see browser.mjs.
 * After a failure, the remaining steps fail without running.
 * @param parts returns the browser, and other parts whose output helps to explain a failure
 */
export const dependentSteps = (parts) => {
  let failed = false;
  return (name, run) => {
    it(name, async (context) => {
      assert.ok(!failed, 'an earlier step failed');
      const screenshot = name.replaceAll(/[^a-z]+/gi, '-').slice(0, 60);
      try {
        await run();
        await parts().browser.screenshot(screenshot);
      } catch (error) {
        failed = true;
        await parts().browser.screenshot(`FAILED-${screenshot}`);
        context.diagnostic(
          Object.values(parts())
            .map((part) => part?.output())
            .join('\n'),
        );
        throw error;
      }
    });
  };
};
