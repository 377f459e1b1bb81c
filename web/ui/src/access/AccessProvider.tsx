import { Bullseye, Modal, ModalBody, Spinner } from '@patternfly/react-core';
import { createContext, useCallback, useContext, useEffect, useRef, useState, type ReactNode } from 'react';
import { reportLateFailure } from '../shell/lateFailure';
import { ApplianceError, sentenceOf } from '../shell/request';
import { announceSession, onCaller, onSessionEnd } from './ending';
import { logOut, readMethods, whoami, type Caller, type LoginMethods, type Role } from './api';
import { LoginForm, LoginPage } from './LoginPage';

type Access = {
  caller: Caller;
  /** The appliance does not authenticate clients. */
  open: boolean;
  leave: () => void;
  /** Asks for another login, after an action that has ended the session. The notice says why. */
  askForLogin: (notice: string) => void;
};

const AccessContext = createContext<Access | undefined>(undefined);

type State =
  | { name: 'asking' }
  | { name: 'unknown'; methods: LoginMethods }
  /** With `ended`, the session has ended, and a dialog with this text asks for another login. */
  | { name: 'known'; caller: Caller; methods: LoginMethods; ended?: string };

const endedByItself = 'Your session has ended. Log in again to continue where you were.';

const retryMilliseconds = 2_000;

/** The person at the page; undefined without a session. */
const findCaller = async (): Promise<Caller | undefined> => {
  try {
    return await whoami();
  } catch (error) {
    if (error instanceof ApplianceError && error.status === 401) {
      return undefined;
    }
    throw error;
  }
};

const startOver = () => {
  window.location.assign('/');
};

/** Whether two answers are about the same person with the same rights. */
const areSame = (one: Caller, other: Caller): boolean => rightsOf(one) === rightsOf(other);

const rightsOf = ({ name, role, clusters = [], infra_envs: infraEnvs = [] }: Caller): string =>
  JSON.stringify([name, role, clusters, infraEnvs]);

/**
 * Shows the login until the person at the page is known, then its children. When the session ends,
 * a dialog asks for another login. The children stay as they are behind it, so that no input is
 * lost. The tabs of a browser share the session: when another person logs in, each tab starts over.
 */
export const AccessProvider = ({ children }: { children: ReactNode }) => {
  const [state, setState] = useState<State>({ name: 'asking' });
  const known = useRef<Caller>();
  const otherTabs = useRef<BroadcastChannel>();
  const enter = useCallback((caller: Caller, methods: LoginMethods, isLogin = known.current === undefined) => {
    if (isLogin) {
      otherTabs.current?.postMessage('login');
    }
    if (known.current && !areSame(known.current, caller)) {
      startOver();
      return;
    }
    known.current = caller;
    setState({ name: 'known', caller, methods });
    announceSession();
  }, []);
  const ask = useCallback(async () => {
    const [methods, caller] = await Promise.all([readMethods(), findCaller()]);
    if (caller) {
      enter(caller, methods);
    } else {
      setState((last) =>
        last.name === 'known' ? { ended: endedByItself, ...last, methods } : { name: 'unknown', methods },
      );
    }
  }, [enter]);
  useEffect(() => {
    const channel = new BroadcastChannel('landfall-login');
    channel.onmessage = () => void ask().catch(() => undefined);
    otherTabs.current = channel;
    return () => {
      channel.close();
    };
  }, [ask]);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const attempt = () => {
      ask().catch(() => {
        timer = setTimeout(attempt, retryMilliseconds);
      });
    };
    attempt();
    return () => {
      clearTimeout(timer);
    };
  }, [ask]);
  const hasSession = state.name === 'known' && state.ended === undefined;
  useEffect(() => {
    if (!hasSession) {
      return undefined;
    }
    let asking = false;
    // A response may be late, after another login. So the appliance is asked.
    return onSessionEnd(() => {
      if (!asking) {
        asking = true;
        ask()
          .catch(() => undefined)
          .finally(() => {
            asking = false;
          });
      }
    });
  }, [ask, hasSession]);
  useEffect(
    () =>
      onCaller((caller) => {
        if (known.current && !areSame(known.current, caller)) {
          startOver();
        }
      }),
    [],
  );
  if (state.name === 'asking') {
    return (
      <Bullseye className="landfall-login">
        <Spinner aria-label="Connecting to the appliance" />
      </Bullseye>
    );
  }
  if (state.name === 'unknown') {
    return (
      <LoginPage
        methods={state.methods}
        entered={(caller) => {
          enter(caller, { ...state.methods, setup: false });
        }}
      />
    );
  }
  const { caller, methods, ended } = state;
  const leave = () => {
    logOut().then(startOver, (error: unknown) => {
      reportLateFailure({ dialog: 'You are still logged in', sentence: sentenceOf(error) });
    });
  };
  const askForLogin = (notice: string) => {
    setState({ ...state, ended: notice });
  };
  return (
    <AccessContext.Provider value={{ caller, open: methods.auth === 'none', leave, askForLogin }}>
      {children}
      {ended !== undefined && (
        <Modal isOpen variant="small" aria-label="Log in again" className="landfall-login-again">
          <ModalBody>
            <LoginForm
              methods={methods}
              name={caller.name}
              notice={ended}
              entered={(next) => {
                enter(next, methods, true);
              }}
            />
          </ModalBody>
        </Modal>
      )}
    </AccessContext.Provider>
  );
};

/** The person at the page. */
export const useAccess = (): Access => {
  const access = useContext(AccessContext);
  if (!access) {
    throw new Error('useAccess is called outside of AccessProvider.');
  }
  return access;
};

const rank: Record<Role, number> = { viewer: 1, operator: 2, admin: 3 };

/** Whether the person at the page has this role or a larger one. */
export const useMay = (role: Role): boolean => rank[useAccess().caller.role] >= rank[role];

/** Shows its children to people with this role or a larger one. */
export const Requires = ({ role, children }: { role: Role; children: ReactNode }) =>
  useMay(role) ? <>{children}</> : null;

/** Whether the person at the page may use only some clusters and infra-envs. */
export const useIsLimited = (): boolean => {
  const { clusters = [], infra_envs: infraEnvs = [] } = useAccess().caller;
  return clusters.length + infraEnvs.length > 0;
};
