import { Alert } from '@patternfly/react-core';
import { sentenceOf } from './request';

/** Why the data of a card cannot be read; nothing without an error. */
export const LoadError = ({ error }: { error: Error | undefined }) =>
  error && <Alert isInline className="landfall-alert" variant="danger" title={sentenceOf(error)} />;
