package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/beevik/ntp"
)

const (
	// skewWarning is the difference between clocks from which the doctor warns. From skewError,
	// hosts reject new certificates of this machine, or the agent's clock check fails (20 minutes,
	// as in the Assisted Installer).
	skewWarning = time.Second
	skewError   = 20 * time.Minute
	// maxRootDistance is the root distance above which chrony rejects a source by default
	// (maxdistance 3 s).
	maxRootDistance = 3 * time.Second
)

func (d *diagnosis) clockChecks() []check {
	if len(d.site.NTPSources) == 0 {
		return []check{func(context.Context) []Finding {
			return []Finding{{
				Area: Clocks, Subject: "time servers", Status: Amber, Check: "which time servers the hosts use",
				Result: "none",
				Advice: "Set the site's time servers in the settings, or with landfall settings set --ntp SERVER. " +
					"Without them, hosts depend on the time servers from DHCP.",
			}}
		}}
	}
	var checks []check
	for _, source := range d.site.NTPSources {
		checks = append(checks, func(ctx context.Context) []Finding {
			return []Finding{d.checkTimeServer(ctx, source)}
		})
	}
	return checks
}

// checkTimeServer requests the time from a time server and compares the server's clock with this
// machine's.
func (d *diagnosis) checkTimeServer(ctx context.Context, source string) Finding {
	finding := Finding{Area: Clocks, Subject: "time server " + source, Status: Green, Check: "the time, by NTP"}
	answer, err := ntp.QueryWithOptions(source, ntp.QueryOptions{Timeout: d.Timeout, GetSystemTime: d.Clock.Now,
		Dialer: func(_, address string) (net.Conn, error) {
			return d.Egress.Dialer(net.Dialer{Timeout: d.Timeout})(ctx, "udp", address)
		}})
	if err != nil {
		finding.Status, finding.Result = Red, reason(err)
		finding.Advice = "Check that the time server runs and its UDP port 123 is reachable from here."
		return finding
	}
	finding.Result = fmt.Sprintf("stratum %d, %s", answer.Stratum, difference(answer.ClockOffset))
	if answer.Leap != ntp.LeapNotInSync && answer.Stratum > 0 && answer.Stratum < 16 {
		d.recordLag(source, -answer.ClockOffset)
	}
	switch {
	case answer.IsKissOfDeath():
		finding.Status, finding.Result = Red, "the server refuses requests ("+answer.KissCode+")"
		finding.Advice = "Allow this site's networks on the time server."
	case answer.Leap == ntp.LeapNotInSync || answer.Stratum == 0 || answer.Stratum >= 16:
		finding.Status = Red
		finding.Result = "the server answers, but its own clock is not synchronised"
		finding.Advice = "Give the time server a time source, or configure it to use its own clock (chrony: local " +
			"stratum 10). Hosts ignore a time server that is not synchronised."
		if slices.Contains(d.site.OwnTimeServers, source) {
			finding.Advice = "This is the appliance's NTP service. Synchronise the clock of its machine. If the site " +
				"has no other clock, set this clock and declare it (landfall site ntp enable INTERFACE " +
				"--local-clock). Until then, hosts ignore the service."
		}
	case answer.RootDistance > maxRootDistance:
		finding.Status = Red
		finding.Result += fmt.Sprintf(", up to %s off the reference clock", answer.RootDistance.Round(time.Millisecond))
		finding.Advice = "Give the time server a better time source. On hosts, chrony ignores a server that may be " +
			"off by 3 s or more."
	default:
		finding.Status, finding.Advice = skewStatus(answer.ClockOffset)
	}
	return finding
}

// recordLag records the lag of a machine's clock behind this machine's clock.
func (d *diagnosis) recordLag(machine string, behind time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lags == nil {
		d.lags = make(map[string]time.Duration)
	}
	d.lags[machine] = behind
}

// certificateLagWarning is the lag above which the doctor warns that hosts may reject new
// certificates. A smaller lag has passed before a host receives the certificate.
const certificateLagWarning = time.Minute

// checkNewCertificates checks whether the site's clocks accept a new certificate of this machine.
// openshift-install does not backdate certificates.
func (d *diagnosis) checkNewCertificates() []Finding {
	if len(d.lags) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(d.lags))
	slowest := slices.MaxFunc(names, func(a, b string) int { return cmp.Compare(d.lags[a], d.lags[b]) })
	finding := Finding{Area: Clocks, Subject: "new certificates", Status: Green,
		Check: "whether a certificate that this machine creates now is valid by all clocks", Result: "yes"}
	if lag := d.lags[slowest]; lag > certificateLagWarning {
		finding.Status = Amber
		finding.Result = fmt.Sprintf("by the clock of %s, the certificate becomes valid only in %s", slowest,
			lag.Round(time.Second))
		finding.Advice = "Synchronise the clocks of the site with one time server before you start hosts."
	}
	return []Finding{finding}
}

// skewStatus returns the status and advice for a clock that is ahead of this machine's clock.
func skewStatus(ahead time.Duration) (Status, string) {
	switch {
	case ahead.Abs() >= skewError:
		return Red, "Set this machine's clock. Hosts would reject the certificates that this machine creates."
	case ahead.Abs() >= skewWarning:
		return Amber, "Synchronise this machine's clock with the site's time server."
	}
	return Green, ""
}

// difference describes the difference between another clock and this machine's clock.
func difference(ahead time.Duration) string {
	word := "ahead of"
	if ahead < 0 {
		word = "behind"
	}
	unit := time.Millisecond
	if ahead.Abs() >= time.Minute {
		unit = time.Second
	}
	return fmt.Sprintf("%s %s this machine's clock", ahead.Abs().Round(unit), word)
}

// withPort adds a port to an address without one.
func withPort(address, port string) string {
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address
	}
	return net.JoinHostPort(address, port)
}
