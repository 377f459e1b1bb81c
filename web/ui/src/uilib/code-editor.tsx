import { Bullseye, Spinner } from '@patternfly/react-core';
import type { CodeEditorProps } from '@patternfly/react-code-editor/dist/esm/components/CodeEditor/CodeEditor';
import { Suspense } from 'react';
import { lazyAgain } from '../shell/lazyAgain';
import { useTheme } from '../shell/theme';

export { CodeEditorControl } from '@patternfly/react-code-editor/dist/esm/components/CodeEditor/CodeEditorControl';
export type { CodeEditorProps };

/** The languages of the editors in the library's screens. */
export const Language = { yaml: 'yaml' } as const;

const Editor = lazyAgain(() => import('./monaco'));

/** YAML files of the field are indented by two columns; the editor's own default is four. */
const options = { tabSize: 2 };

/**
 * Replaces `@patternfly/react-code-editor`: the same editor, but loaded from the appliance, and
 * only when a screen shows it (monaco is half of the application). The original loads it from a
 * public CDN.
 */
export const CodeEditor = (props: Omit<CodeEditorProps, 'ref'>) => {
  const isDark = useTheme() === 'dark';
  return (
    <Suspense
      fallback={
        <Bullseye>
          <Spinner aria-label="Loading the editor" />
        </Bullseye>
      }
    >
      <Editor isDarkTheme={isDark} options={options} {...props} />
    </Suspense>
  );
};
