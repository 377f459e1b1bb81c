import { Alert, Content, Spinner } from '@patternfly/react-core';
import { useCallback } from 'react';
import { FormDialog } from '../shell/FormDialog';
import { sentenceOf } from '../shell/request';
import { useAnswer } from '../shell/useAnswer';
import { planCopy, startCopy } from './api';
import { planText } from './words';

const once = () => undefined;
/** The appliance reads the index of a slow medium first. */
const limit = 5 * 60_000;

/** Says how much space the copy of a medium needs, before it starts. */
export const CopyDialog = ({ medium, onClose }: { medium: string; onClose: () => void }) => {
  const read = useCallback(() => planCopy(medium), [medium]);
  const { answer: plan, error } = useAnswer(read, once, limit);
  return (
    <FormDialog
      title={medium === 'all' ? 'Copy all media to the disk' : `Copy ${medium} to the disk`}
      action="Copy"
      isComplete={plan?.fits === true}
      onSend={() => startCopy(medium)}
      onClose={onClose}
    >
      <Content component="p">
        The appliance serves the medium while it copies it. When all is copied, the medium may be removed.
      </Content>
      {error && <Alert isInline variant="danger" title={sentenceOf(error)} />}
      {!plan && !error && <Spinner aria-label="Reading the needed space" />}
      {plan && <Alert isInline variant={plan.fits ? 'info' : 'danger'} title={planText(plan)} data-testid="plan" />}
    </FormDialog>
  );
};
