import { Alert, Bullseye, Spinner, StackItem } from '@patternfly/react-core';
import { Failure } from './Failure';
import { sentenceOf } from './request';

type Props = {
  /** The error of the last action; '' if it succeeded. */
  failure: string;
  /** The error of the last request for the page's data. */
  error: Error | undefined;
  /** Whether there is data to show. */
  hasAnswer: boolean;
  /** The label of the spinner until then. */
  waiting: string;
};

/** The head of a page's stack: errors, and a spinner until the first response. */
export const PageStatus = ({ failure, error, hasAnswer, waiting }: Props) => (
  <>
    {failure !== '' && (
      <StackItem>
        <Failure text={failure} />
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
