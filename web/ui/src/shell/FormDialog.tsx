import { Button, Form, Modal, ModalBody, ModalFooter, ModalHeader } from '@patternfly/react-core';
import { useEffect, useId, useRef, useState, type ReactNode } from 'react';
import { Failure } from './Failure';
import { reportLateFailure } from './lateFailure';
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
  /** Called when the input has been sent, unless a person has closed the dialog before. */
  onSent?: () => void;
  onClose: () => void;
  /** The fields. */
  children: ReactNode;
};

/**
 * A dialog with a form. It closes when the input has been sent, or shows why it was not sent. If a
 * person closes it before, the request goes on. Its end then closes nothing, because another dialog
 * may be open, and the page shows its error.
 */
export const FormDialog = (props: Props) => {
  const { title, about, action, variant = 'small', isComplete = true, isDanger = false } = props;
  const { onSend, onSent, onClose, children } = props;
  const id = useId();
  const [failure, setFailure] = useState('');
  const { isRunning, run } = useAction();
  const isOpen = useRef(false);
  useEffect(() => {
    isOpen.current = true;
    return () => {
      isOpen.current = false;
    };
  }, []);
  const canSend = isComplete && !isRunning;
  const send = async () => {
    setFailure('');
    try {
      await onSend();
      if (isOpen.current) {
        onSent?.();
        onClose();
      }
    } catch (error) {
      setFailure(sentenceOf(error));
      if (!isOpen.current) {
        reportLateFailure({ dialog: title, sentence: sentenceOf(error) });
      }
    }
  };
  return (
    <Modal isOpen variant={variant} aria-label={title} elementToFocus={firstFocus(id)} onClose={onClose}>
      <ModalHeader title={title} description={about} {...(isDanger && { titleIconVariant: 'warning' })} />
      <ModalBody>
        <Form
          id={id}
          onChange={() => {
            setFailure(''); // it is about the former input
          }}
          onSubmit={(event) => {
            event.preventDefault();
            if (canSend) {
              void run(send);
            }
          }}
        >
          <Failure text={failure} />
          {children}
        </Form>
      </ModalBody>
      <ModalFooter>
        <Button
          type="submit"
          form={id}
          variant={isDanger ? 'danger' : 'primary'}
          isDisabled={!isComplete}
          isAriaDisabled={isRunning} // a button that is disabled loses the focus
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
