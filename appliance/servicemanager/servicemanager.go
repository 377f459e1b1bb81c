// Package servicemanager connects the process with systemd. It takes the sockets that systemd
// opened (sd_listen_fds(3)), and reports when the process is ready, that it is alive, and when it
// stops (sd_notify(3)). Without systemd, there are no sockets and no reports.
package servicemanager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/jonboulle/clockwork"
)

// Listeners returns the sockets that systemd opened for this process. A second call returns none.
func Listeners() ([]net.Listener, error) {
	listeners, err := activation.Listeners()
	if err != nil {
		return nil, fmt.Errorf("take the sockets of systemd: %w", err)
	}
	for _, listener := range listeners {
		if _, tcp := listener.(*net.TCPListener); !tcp {
			return nil, errors.Join(errors.New("systemd passed a socket that does not listen on a TCP port; use "+
				"ListenStream=ADDRESS:PORT in landfall.socket"), closeAll(listeners))
		}
	}
	return listeners, nil
}

func closeAll(listeners []net.Listener) error {
	var errs []error
	for _, listener := range listeners {
		if listener != nil {
			errs = append(errs, listener.Close())
		}
	}
	return errors.Join(errs...)
}

// Service reports the state of the appliance to systemd.
type Service struct {
	Status string                      // for systemctl status
	Alive  func(context.Context) error // nil if the appliance is alive
	Clock  clockwork.Clock
	Logger *slog.Logger
}

// Run reports that the service is ready, and that it is alive as often as the unit demands
// (WatchdogSec), until the context ends. Then it reports the stop. If the appliance is not alive,
// the report is omitted; systemd ends and restarts the process after the time in the unit.
func (s Service) Run(ctx context.Context) {
	if !s.notify(daemon.SdNotifyReady + "\nSTATUS=" + s.Status) {
		return
	}
	defer s.notify(daemon.SdNotifyStopping + "\nSTATUS=Stopping.")
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		s.Logger.Warn("Systemd's watchdog does not watch the appliance.", "error", err)
	}
	if limit <= 0 {
		<-ctx.Done()
		return
	}
	// A lost or late report must not end the service.
	ticker := s.Clock.NewTicker(limit / 4)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.Chan():
		}
		checked, cancel := context.WithTimeout(ctx, limit/4)
		err := s.Alive(checked)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.Logger.Error("The appliance is not alive. Systemd restarts it if this lasts.", "after", limit,
				"error", err)
			continue
		}
		s.notify(daemon.SdNotifyWatchdog)
	}
}

// notify sends a state. It returns false if nothing receives it.
func (s Service) notify(state string) bool {
	sent, err := daemon.SdNotify(false, state)
	if err != nil {
		s.Logger.Warn("A report to systemd could not be sent.", "error", err)
	}
	return sent
}

// AnswersAt returns a check that the server at a URL of this machine answers with success. A new
// connection for each check also checks that the server accepts connections.
func AnswersAt(url string) func(context.Context) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if errors.Is(err, syscall.ECONNRESET) {
			return nil // the server is above its limit of connections; a restart would not help
		}
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, response.Status)
		}
		return nil
	}
}
