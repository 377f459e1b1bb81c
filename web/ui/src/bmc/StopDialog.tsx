import { Confirm } from '../shell/Confirm';
import type { Act } from '../shell/useAct';
import { switchPower, type Server } from './api';
import { HostLink } from './HostLink';

/** The names of the actions that stop the system of a server. */
export const stopNames = { soft: 'Shut down', off: 'Power off', reset: 'Restart' } as const;

export type Stop = keyof typeof stopNames;

type Props = { stop: Stop; server: Server; act: Act; onClose: () => void };

/** Asks before an action that stops the system of a server. */
export const StopDialog = ({ stop, server, act, onClose }: Props) => (
  <Confirm
    title={`${stopNames[stop]} ${server.name}?`}
    action={stopNames[stop]}
    onConfirm={() => void act(() => switchPower(server.id, stop))}
    onClose={onClose}
  >
    This stops the system that runs on the server.
    {server.booted?.host && (
      <div>
        Its host: <HostLink infraEnvId={server.booted.host.infra_env_id} id={server.booted.host.id} />
      </div>
    )}
  </Confirm>
);
