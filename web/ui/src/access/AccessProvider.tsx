import { Bullseye, Spinner } from '@patternfly/react-core';
import { createContext, useCallback, useContext, useEffect, useState, type ReactNode } from 'react';
import { ApplianceError, sentenceOf } from '../shell/request';
import { onSessionEnd } from './ending';
import { logOut, readMethods, whoami, type Caller, type LoginMethods, type Role } from './api';
import { LoginPage } from './LoginPage';

type Access = {
  caller: Caller;
  /** The appliance does not authenticate clients. */
  open: boolean;
  leave: () => void;
};

const AccessContext = createContext<Access | undefined>(undefined);

type State =
  | { name: 'asking' }
  | { name: 'unknown'; methods: LoginMethods; notice: string }
  | { name: 'known'; caller: Caller; methods: LoginMethods };

const retryMilliseconds = 2_000;

/** Shows the login until the person at the page is known, then its children. */
export const AccessProvider = ({ children }: { children: ReactNode }) => {
  const [state, setState] = useState<State>({ name: 'asking' });
  const ask = useCallback(async (notice = '') => {
    const methods = await readMethods();
    try {
      setState({ name: 'known', caller: await whoami(), methods });
    } catch (error) {
      if (!(error instanceof ApplianceError) || error.status !== 401) {
        throw error;
      }
      setState({ name: 'unknown', methods, notice });
    }
  }, []);
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
  useEffect(
    () =>
      onSessionEnd(() => {
        ask('Your session has ended. Log in again.').catch(() => undefined);
      }),
    [ask],
  );
  if (state.name === 'asking') {
    return (
      <Bullseye>
        <Spinner aria-label="Connecting to the appliance" />
      </Bullseye>
    );
  }
  if (state.name === 'unknown') {
    return (
      <LoginPage
        methods={state.methods}
        notice={state.notice}
        entered={(caller) => {
          setState({ name: 'known', caller, methods: state.methods });
        }}
      />
    );
  }
  const leave = () => {
    logOut()
      .then(() => ask())
      .catch((error: unknown) => {
        setState({ name: 'unknown', methods: state.methods, notice: sentenceOf(error) });
      });
  };
  return (
    <AccessContext.Provider value={{ caller: state.caller, open: state.methods.auth === 'none', leave }}>
      {children}
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
