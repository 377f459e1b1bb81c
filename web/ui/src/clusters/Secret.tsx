import { Button, Flex, FlexItem, Spinner } from '@patternfly/react-core';
import { useState } from 'react';
import { Fact } from '../image/Copyable';
import { sentenceOf } from '../shell/request';
import { useAction } from '../shell/useAction';

type Props = {
  term: string;
  /** In the names of the buttons, such as "the password". */
  noun: string;
  read: () => Promise<string>;
  /** The URL of the secret as a file. */
  file?: string;
  isLong?: boolean;
};

/** A secret of a description list. It is requested when a person wants to see or copy it. */
export const Secret = ({ term, noun, read, file, isLong = false }: Props) => {
  const [secret, setSecret] = useState<string>();
  const [state, setState] = useState<'idle' | 'copied'>('idle');
  const [failure, setFailure] = useState('');
  const { isRunning, run } = useAction();
  const act = async (work: (text: string) => Promise<void> | void, next: 'idle' | 'copied') => {
    setState('idle');
    try {
      await work(secret ?? (await read()));
      setFailure('');
      setState(next);
    } catch (error) {
      setFailure(sentenceOf(error));
    }
  };
  const isShown = secret !== undefined;
  return (
    <Fact term={term}>
      <Flex gap={{ default: 'gapSm' }} alignItems={{ default: 'alignItemsCenter' }}>
        <FlexItem className={isLong || !isShown ? undefined : 'landfall-secret'}>
          {isShown && !isLong && <code>{secret}</code>}
          {!isShown && <span className="landfall-subtle">Hidden</span>}
        </FlexItem>
        <Button
          variant="secondary"
          size="sm"
          aria-label={`${isShown ? 'Hide' : 'Show'} ${noun}`}
          onClick={() => {
            if (isShown) {
              setSecret(undefined);
            } else {
              void run(() => act(setSecret, 'idle'));
            }
          }}
        >
          {isShown ? 'Hide' : 'Show'}
        </Button>
        <Button
          variant="secondary"
          size="sm"
          aria-label={`Copy ${noun}`}
          onClick={() => void run(() => act((text) => navigator.clipboard.writeText(text), 'copied'))}
        >
          Copy
        </Button>
        {file && (
          <Button variant="secondary" size="sm" component="a" href={file} download aria-label={`Download ${noun}`}>
            Download
          </Button>
        )}
        <span role="status">
          {isRunning && <Spinner size="sm" aria-label={`Reading ${noun}`} />}
          {state === 'copied' && 'Copied'}
          {failure}
        </span>
      </Flex>
      {isShown && isLong && (
        // A person scrolls the text with the keyboard.
        <pre className="landfall-secret-text" tabIndex={0} aria-label={noun}>
          {secret}
        </pre>
      )}
    </Fact>
  );
};
