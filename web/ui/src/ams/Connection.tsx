import {
  Alert,
  Button,
  Card,
  CardBody,
  CardTitle,
  DescriptionList,
  DescriptionListDescription,
  DescriptionListGroup,
  DescriptionListTerm,
  Flex,
} from '@patternfly/react-core';
import { useState } from 'react';
import { useMay } from '../access/AccessProvider';
import { ActionButton } from '../shell/ActionButton';
import { Confirm } from '../shell/Confirm';
import { duration, moment } from '../shell/quantities';
import type { Act } from '../shell/useAct';
import { acceptIdentity, connectFor, logOut, type AmsStatus } from './api';
import { LoginDialog } from './LoginDialog';
import { firstAction, relayStatus } from './words';

const noticeable = 60;

type Props = { status: AmsStatus; act: Act; changed: () => void };

/** The connection of the site to AMS, with its actions. */
export const Connection = ({ status, act, changed }: Props) => {
  const [login, setLogin] = useState(false);
  const [isLeaving, setLeaving] = useState(false);
  const { name, variant } = relayStatus(status);
  const facts: [string, string | undefined][] = [
    ['API', status.api_url],
    ['Organization', status.organization],
    ['Account', status.account],
    ["Site's key", status.site_key],
    ['Last contact', status.last_contact && moment(status.last_contact)],
    ['Next attempt', status.next_try && moment(status.next_try)],
    ['Oldest pending change', status.oldest_waiting && moment(status.oldest_waiting)],
    ['Time to send all', status.waiting > 0 ? duration(status.seconds_left) : undefined],
    ['Token valid until', status.token_until && moment(status.token_until)],
    [
      'Clock',
      Math.abs(status.clock_skew_seconds) > noticeable
        ? `off by ${duration(Math.abs(status.clock_skew_seconds))}; check this machine's clock`
        : undefined,
    ],
    ['Connected until', isAhead(status.connected_till) ? moment(status.connected_till ?? '') : undefined],
  ];
  const administers = useMay('admin');
  const off = status.state === 'off';
  const first = firstAction(status.state);
  return (
    <Card isFullHeight>
      <CardTitle>Connection</CardTitle>
      <CardBody>
        <Alert isInline variant={variant} title={name} data-testid="ams-state">
          {status.problem}
        </Alert>
        <DescriptionList isCompact columnModifier={{ default: '2Col' }} className="landfall-ams-facts">
          {facts.map(
            ([term, fact]) =>
              fact && (
                <DescriptionListGroup key={term}>
                  <DescriptionListTerm>{term}</DescriptionListTerm>
                  <DescriptionListDescription>{fact}</DescriptionListDescription>
                </DescriptionListGroup>
              ),
          )}
        </DescriptionList>
        {!off && administers && (
          <Flex gap={{ default: 'gapSm' }}>
            <ActionButton
              variant={first === 'connect' ? 'primary' : 'secondary'}
              onAct={() => act(() => connectFor(10))}
            >
              Connect for ten minutes
            </ActionButton>
            {first === 'accept' && (
              <ActionButton variant="primary" onAct={() => act(acceptIdentity)}>
                Send from this site
              </ActionButton>
            )}
            <Button
              variant={first === 'login' ? 'primary' : 'secondary'}
              onClick={() => {
                setLogin(true);
              }}
            >
              Log in
            </Button>
            {status.state !== 'no-credentials' && (
              <Button
                variant="link"
                onClick={() => {
                  setLeaving(true);
                }}
              >
                Log out
              </Button>
            )}
          </Flex>
        )}
        {isLeaving && (
          <Confirm
            title="Log out of OpenShift Cluster Manager?"
            action="Log out"
            onConfirm={() => void act(logOut)}
            onClose={() => {
              setLeaving(false);
            }}
          >
            The appliance deletes the credentials. Changes of clusters wait until an administrator logs in again.
          </Confirm>
        )}
        {login && (
          <LoginDialog
            onClose={() => {
              setLogin(false);
              changed();
            }}
          />
        )}
      </CardBody>
    </Card>
  );
};

const isAhead = (time: string | undefined): boolean => time !== undefined && new Date(time).getTime() > Date.now();
