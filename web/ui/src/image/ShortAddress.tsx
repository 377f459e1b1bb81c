import {
  Button,
  Content,
  Flex,
  FormGroup,
  FormSelect,
  FormSelectOption,
} from '@patternfly/react-core';
import { useState } from 'react';
import { useMay } from '../access/AccessProvider';
import { FormDialog } from '../shell/FormDialog';
import { moment } from '../shell/quantities';
import { renewShortURL, revokeShortURL, type ImageFacts } from './api';
import { Copyable } from './Copyable';

type Props = {
  infraEnvId: string;
  facts: Pick<ImageFacts, 'short_url' | 'short_url_expires'>;
  /** The short address on the chosen network. */
  url?: string | undefined;
  onChange: () => void;
};

/** The short address for virtual media, with buttons to renew and revoke it. */
export const ShortAddress = ({ infraEnvId, facts, url, onChange }: Props) => {
  const [dialog, setDialog] = useState<'renew' | 'revoke'>();
  const mayChange = useMay('operator');
  const shown = facts.short_url ? (url ?? facts.short_url) : '';
  const close = () => {
    setDialog(undefined);
  };
  return (
    <>
      {shown ? (
        <div data-testid="short-url">
          <Copyable label="Short address">{shown}</Copyable>
        </div>
      ) : (
        <p data-testid="short-url-none">The short address was revoked or has expired; no machine can boot from it.</p>
      )}
      <Flex gap={{ default: 'gapMd' }} className="pf-v6-u-mt-xs" alignItems={{ default: 'alignItemsCenter' }}>
        {shown && (
          <span className="landfall-subtle" data-testid="short-url-expires">
            {validity(facts.short_url_expires)}
          </span>
        )}
        {mayChange && (
          <Button
            variant="link"
            isInline
            onClick={() => {
              setDialog('renew');
            }}
          >
            {shown ? 'Renew' : 'Create a new one'}
          </Button>
        )}
        {mayChange && shown && (
          <Button
            variant="link"
            isInline
            isDanger
            onClick={() => {
              setDialog('revoke');
            }}
          >
            Revoke
          </Button>
        )}
      </Flex>
      {dialog === 'renew' && <Renew infraEnvId={infraEnvId} isFirst={!shown} onClose={close} onDone={onChange} />}
      {dialog === 'revoke' && <Revoke infraEnvId={infraEnvId} onClose={close} onDone={onChange} />}
    </>
  );
};

const validity = (expires: string | null | undefined): string =>
  expires ? `Valid until ${moment(expires)}` : 'Valid until revoked';

const hour = 3_600;
const validities = [
  { seconds: '', label: 'until it is revoked' },
  { seconds: String(8 * hour), label: '8 hours' },
  { seconds: String(24 * hour), label: '1 day' },
  { seconds: String(7 * 24 * hour), label: '7 days' },
  { seconds: String(30 * 24 * hour), label: '30 days' },
];

type DialogProps = { infraEnvId: string; onClose: () => void; onDone: () => void };

const Renew = ({ infraEnvId, isFirst, onClose, onDone }: DialogProps & { isFirst: boolean }) => {
  const [seconds, setSeconds] = useState('');
  return (
    <FormDialog
      title={isFirst ? 'Create a new short address?' : 'Renew the short address?'}
      action={isFirst ? 'Create' : 'Renew'}
      onSend={() => renewShortURL(infraEnvId, seconds === '' ? undefined : Number(seconds)).then(onDone)}
      onClose={onClose}
    >
      {!isFirst && (
        <Content component="p">
          The old address becomes invalid immediately, even for machines that are booting from it.
        </Content>
      )}
      <FormGroup label="Valid for" fieldId="short-url-validity">
        <FormSelect
          id="short-url-validity"
          value={seconds}
          onChange={(_, chosen) => {
            setSeconds(chosen);
          }}
        >
          {validities.map((one) => (
            <FormSelectOption key={one.seconds} value={one.seconds} label={one.label} />
          ))}
        </FormSelect>
      </FormGroup>
    </FormDialog>
  );
};

const Revoke = ({ infraEnvId, onClose, onDone }: DialogProps) => (
  <FormDialog
    title="Revoke the short address?"
    action="Revoke"
    isDanger
    onSend={() => revokeShortURL(infraEnvId).then(onDone)}
    onClose={onClose}
  >
    <Content component="p">
      The address becomes invalid immediately, even for machines that are booting from it. The other addresses stay
      valid.
    </Content>
  </FormDialog>
);
