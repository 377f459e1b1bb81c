import {
  Alert,
  Button,
  Content,
  Flex,
  FormGroup,
  FormSelect,
  FormSelectOption,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
  NumberInput,
} from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useState } from 'react';
import { Requires } from '../access/AccessProvider';
import { ActionButton } from '../shell/ActionButton';
import { Confirm } from '../shell/Confirm';
import { moment } from '../shell/quantities';
import { useAct } from '../shell/useAct';
import type { AnswerState } from '../shell/useAnswer';
import { closeSealedImage, sealImage, unsealImage, type SealedState } from './api';
import { describeSeal } from './facts';

type Props = { infraEnvId: string; state: AnswerState<SealedState> };

/**
 * Whether the image contains the discovery config or a token for it, the machines that fetched the
 * config, and the buttons to change this.
 */
export const SealedImage = ({ infraEnvId, state: { answer: seal, error, refetch } }: Props) => {
  const { act, failure } = useAct(refetch);
  const [dialog, setDialog] = useState<'seal' | 'unseal'>();
  const close = () => {
    setDialog(undefined);
  };
  if (!seal) {
    return error ? <Alert isInline variant="warning" title={error.message} /> : null;
  }
  return (
    <div data-testid="sealed-image">
      {failure !== '' && <Alert isInline variant="danger" title={failure} data-testid="sealed-image-failure" />}
      <Content component="p" data-testid="sealed-image-state">
        {describeSeal(seal)}
      </Content>
      {seal.fetches.length > 0 && (
        <Table aria-label="Machines that fetched the config" variant="compact">
          <Thead>
            <Tr>
              <Th>Address</Th>
              <Th>First fetch</Th>
              <Th>Last fetch</Th>
              <Th>Fetches</Th>
            </Tr>
          </Thead>
          <Tbody>
            {seal.fetches.map(({ address, first, last, times }) => (
              <Tr key={address}>
                <Td dataLabel="Address">{address}</Td>
                <Td dataLabel="First fetch">{moment(first)}</Td>
                <Td dataLabel="Last fetch">{moment(last)}</Td>
                <Td dataLabel="Fetches">{times}</Td>
              </Tr>
            ))}
          </Tbody>
        </Table>
      )}
      <Requires role="operator">
        <Flex gap={{ default: 'gapMd' }}>
          <Button
            variant="link"
            isInline
            onClick={() => {
              setDialog('seal');
            }}
          >
            {seal.sealed ? 'Open again' : 'Seal the image'}
          </Button>
          {seal.open && (
            <ActionButton variant="link" isInline onAct={() => act(() => closeSealedImage(infraEnvId))}>
              Close now
            </ActionButton>
          )}
          {seal.sealed && (
            <Button
              variant="link"
              isInline
              isDanger
              onClick={() => {
                setDialog('unseal');
              }}
            >
              Unseal
            </Button>
          )}
        </Flex>
      </Requires>
      {dialog === 'seal' && (
        <Seal
          isSealed={seal.sealed}
          onClose={close}
          onSeal={(seconds, machines) => {
            close();
            void act(() => sealImage(infraEnvId, seconds, machines));
          }}
        />
      )}
      {dialog === 'unseal' && (
        <Confirm
          title="Unseal the image?"
          action="Unseal"
          onClose={close}
          onConfirm={() => void act(() => unsealImage(infraEnvId))}
        >
          Later images contain the config, with the token of the infra-env and the pull secret. Sealed images that were
          downloaded before become useless.
        </Confirm>
      )}
    </div>
  );
};

const hour = 3_600;
const limits = [
  { seconds: hour, label: '1 hour' },
  { seconds: 8 * hour, label: '8 hours' },
  { seconds: 24 * hour, label: '1 day' },
  { seconds: 7 * 24 * hour, label: '7 days' },
  { seconds: 30 * 24 * hour, label: '30 days' },
  { seconds: 90 * 24 * hour, label: '90 days' },
];
const aDay = 24 * hour;
const mostMachines = 10_000;

type SealProps = { isSealed: boolean; onClose: () => void; onSeal: (seconds: number, machines: number) => void };

const Seal = ({ isSealed, onClose, onSeal }: SealProps) => {
  const [seconds, setSeconds] = useState(aDay);
  const [machines, setMachines] = useState(0);
  const setLimit = (count: number) => {
    setMachines(Math.min(mostMachines, Math.max(0, Math.trunc(count) || 0)));
  };
  const title = isSealed ? 'Open the sealed image again?' : 'Seal the image?';
  return (
    <Modal isOpen onClose={onClose} variant="small" aria-label={title}>
      <ModalHeader title={title} />
      <ModalBody>
        <p>
          {isSealed
            ? 'Sealed images that were downloaded before are usable again for this time.'
            : 'Later images contain a token instead of the config. Machines fetch the config with the token, for the ' +
              'given time. Images that were downloaded before still contain the pull secret.'}
        </p>
        <FormGroup label="Machines may fetch the config for" fieldId="sealed-image-time" className="pf-v6-u-mt-md">
          <FormSelect
            id="sealed-image-time"
            value={seconds}
            onChange={(_event, chosen) => {
              setSeconds(Number(chosen));
            }}
          >
            {limits.map((limit) => (
              <FormSelectOption key={limit.seconds} value={limit.seconds} label={limit.label} />
            ))}
          </FormSelect>
        </FormGroup>
        <FormGroup
          label="Largest number of machines; 0 means no limit"
          fieldId="sealed-image-machines"
          className="pf-v6-u-mt-md"
        >
          <NumberInput
            inputProps={{ id: 'sealed-image-machines' }}
            inputAriaLabel="Largest number of machines"
            min={0}
            max={mostMachines}
            value={machines}
            onMinus={() => {
              setLimit(machines - 1);
            }}
            onPlus={() => {
              setLimit(machines + 1);
            }}
            onChange={(event) => {
              setLimit(Number(event.currentTarget.value));
            }}
          />
        </FormGroup>
      </ModalBody>
      <ModalFooter>
        <Button
          onClick={() => {
            onSeal(seconds, machines);
          }}
        >
          {isSealed ? 'Open' : 'Seal'}
        </Button>
        <Button variant="link" onClick={onClose}>
          Cancel
        </Button>
      </ModalFooter>
    </Modal>
  );
};
