import { Alert, Button, Form, Modal, ModalBody, ModalFooter, ModalHeader } from '@patternfly/react-core';
import { useId, useState, type ReactNode } from 'react';
import { sentenceOf } from './request';
import { useAction } from './useAction';

type Props = {
  title: string;
  /** What the dialog is for, below the title. */
  about?: string;
  /** The text of the button. */
  action: string;
  variant?: 'small' | 'large';
  /** Whether the input can be sent. */
  isComplete?: boolean;
  /** Whether the action cannot be undone. */
  isDanger?: boolean;
  onSend: () => Promise<unknown>;
  onClose: () => void;
  /** The fields. */
  children: ReactNode;
};

/** A dialog with a form. It closes when the input has been sent, or shows why it was not sent. */
export const FormDialog = (props: Props) => {
  const { title, about, action, variant = 'small', isComplete = true, isDanger = false } = props;
  const { onSend, onClose, children } = props;
  const id = useId();
  const [failure, setFailure] = useState('');
  const { isRunning, run } = useAction();
  const canSend = isComplete && !isRunning;
  const send = async () => {
    setFailure('');
    try {
      await onSend();
      onClose();
    } catch (error) {
      setFailure(sentenceOf(error));
    }
  };
  return (
    <Modal isOpen variant={variant} aria-label={title} elementToFocus={firstFocus(id)} onClose={onClose}>
      <ModalHeader title={title} description={about} {...(isDanger && { titleIconVariant: 'warning' })} />
      <ModalBody>
        <Form
          id={id}
          onSubmit={(event) => {
            event.preventDefault();
            if (canSend) {
              void run(send);
            }
          }}
        >
          {failure !== '' && <Alert isInline variant="danger" title={failure} />}
          {children}
        </Form>
      </ModalBody>
      <ModalFooter>
        <Button
          type="submit"
          form={id}
          variant={isDanger ? 'danger' : 'primary'}
          isDisabled={!canSend}
          isLoading={isRunning}
        >
          {action}
        </Button>
        <Button id={`${id}-cancel`} variant="link" onClick={onClose}>
          Cancel
        </Button>
      </ModalFooter>
    </Modal>
  );
};

/** The first field; in a dialog without fields, the button that changes nothing. */
const firstFocus = (id: string): string => `[id="${id}"] :is(input, select, textarea), [id="${id}-cancel"]`;
