import { Bullseye, Spinner } from '@patternfly/react-core';
import type { CodeEditorProps } from '@patternfly/react-code-editor/dist/esm/components/CodeEditor/CodeEditor';
import { Suspense, lazy } from 'react';
import { shownTheme } from '../shell/theme';

export { CodeEditorControl } from '@patternfly/react-code-editor/dist/esm/components/CodeEditor/CodeEditorControl';
export type { CodeEditorProps };

/** The languages that the library's screens edit. */
export const Language = { yaml: 'yaml' } as const;

const Editor = lazy(() => import('./monaco'));

/**
 * Stands in for `@patternfly/react-code-editor`: the same editor, but loaded (monaco is half of the application) only
 * when a screen shows one, and from the appliance, where the original would ask a public CDN.
 */
export const CodeEditor = (props: Omit<CodeEditorProps, 'ref'>) => (
  <Suspense
    fallback={
      <Bullseye>
        <Spinner aria-label="Loading the editor" />
      </Bullseye>
    }
  >
    <Editor isDarkTheme={shownTheme() === 'dark'} {...props} />
  </Suspense>
);
