import { useCallback, useEffect, useRef, useSyncExternalStore } from 'react';
import { useNavigate } from 'react-router-dom-v5-compat';
import { useRefetchOn } from '../live/useRefetchOn';
import { readNotices, type Notice } from './api';
import { followSwitch, isOn, newer, titleOf } from './browser';

/** Whether this browser shows notifications. */
export const useBrowserNotices = (): boolean =>
  useSyncExternalStore(
    (notify) => followSwitch(window, notify),
    () => isOn(window),
  );

/** Shows new notifications in the browser while the page is open, if the person wants them. */
export const BrowserNotices = () => (useBrowserNotices() ? <Notifier /> : null);

const Notifier = () => {
  const navigate = useNavigate();
  const last = useRef<string>();
  const show = useCallback(
    (notice: Notice) => {
      try {
        // The tag is for several windows of the page: the browser shows each notification once.
        const shown = new Notification(titleOf(notice), { body: notice.message, tag: notice.id });
        shown.onclick = () => {
          window.focus();
          navigate(new URL(notice.url, window.location.href).pathname);
          shown.close();
        };
      } catch {
        // Some browsers of phones have notifications of service workers only.
      }
    },
    [navigate],
  );
  const look = useCallback(() => {
    readNotices()
      .then((notices) => {
        if (last.current !== undefined) {
          newer(notices, last.current).forEach(show);
        }
        last.current = notices[0]?.id ?? last.current ?? '';
      })
      .catch(() => {
        // The feed calls again when the appliance answers.
      });
  }, [show]);
  useEffect(look, [look]);
  useRefetchOn(['notifications'], look);
  return null;
};
