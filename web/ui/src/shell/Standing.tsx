import { Alert, Bullseye, Spinner, StackItem } from '@patternfly/react-core';
import { sentenceOf } from './request';

type Props = {
  /** How the last thing that was done failed; '' when it did not. */
  failure: string;
  /** Why what the page shows could not be asked for. */
  error: Error | undefined;
  /** Whether there is something to show. */
  hasAnswer: boolean;
  /** What is being done until then. */
  waiting: string;
};

/** The head of a page's stack: what went wrong, and that its first answer is awaited. */
export const Standing = ({ failure, error, hasAnswer, waiting }: Props) => (
  <>
    {failure !== '' && (
      <StackItem>
        <Alert isInline variant="danger" title={failure} data-testid="failure" />
      </StackItem>
    )}
    {error && (
      <StackItem>
        <Alert isInline variant="danger" title={sentenceOf(error)} />
      </StackItem>
    )}
    {!hasAnswer && !error && (
      <Bullseye>
        <Spinner aria-label={waiting} />
      </Bullseye>
    )}
  </>
);
