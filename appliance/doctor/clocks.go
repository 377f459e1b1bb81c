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
	// skewNoted is the difference between clocks above which the doctor warns. Above skewFatal,
	// hosts do not accept new certificates of this machine yet, or the agent's clock check fails
	// (20 minutes, as in the Assisted Installer).
	skewWarning = time.Second
	skewError = 20 * time.Minute
	// farAway is the root distance above which chrony rejects a source by default (maxdistance 3
	// s).
	maxRootDistance = 3 * time.Second
)

func (e *diagnosis) clockChecks() []check {
	if len(e.site.NTPSources) == 0 {
		return []check{func(context.Context) []Finding {
			return []Finding{{
				Area: Clocks, Subject: "time servers", Status: Amber, Check: "which time servers hosts are told",
				Result: "none",
				Advice: "Name the site's time servers (ntp_sources in the configuration, or the infra-env's additional " +
					"NTP sources); without them hosts depend on what DHCP says.",
			}}
		}}
	}
	var checks []check
	for _, source := range e.site.NTPSources {
		checks = append(checks, func(context.Context) []Finding { return []Finding{e.checkTimeServer(source)} })
	}
	return checks
}

// timeServer requests the time from a time server and compares the server's clock with this
// machine's.
func (e *diagnosis) checkTimeServer(source string) Finding {
	finding := Finding{Area: Clocks, Subject: "time server " + source, Status: Green, Check: "the time, by NTP"}
	answer, err := ntp.QueryWithOptions(source, ntp.QueryOptions{Timeout: e.Timeout, GetSystemTime: e.Clock.Now})
	if err != nil {
		finding.Status, finding.Result = Red, reason(err)
		finding.Advice = "Check that the time server runs and its UDP port 123 is reachable from here."
		return finding
	}
	finding.Result = fmt.Sprintf("stratum %d, %s", answer.Stratum, difference(answer.ClockOffset))
	if answer.Leap != ntp.LeapNotInSync && answer.Stratum > 0 && answer.Stratum < 16 {
		e.recordLag(source, -answer.ClockOffset)
	}
	switch {
	case answer.IsKissOfDeath():
		finding.Status, finding.Result = Red, "it refuses to answer ("+answer.KissCode+")"
		finding.Advice = "Have the time server allow this site's networks."
	case answer.Leap == ntp.LeapNotInSync || answer.Stratum == 0 || answer.Stratum >= 16:
		finding.Status = Red
		finding.Result = "it answers, but has not found the time itself"
		finding.Advice = "Give the time server a source of its own, or have it trust its own clock (chrony: local " +
			"stratum 10); hosts take no time from one that is not synchronised."
	case answer.RootDistance > maxRootDistance:
		finding.Status = Red
		finding.Result += fmt.Sprintf(", as far as %s from a true clock", answer.RootDistance.Round(time.Millisecond))
		finding.Advice = "Give the time server a better source; chrony on hosts takes no time from one that may be off " +
			"by 3 s or more."
	default:
		finding.Status, finding.Advice = skewStatus(answer.ClockOffset)
	}
	return finding
}

// noteLag records by how much a clock is behind this machine's.
func (e *diagnosis) recordLag(what string, behind time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lags == nil {
		e.lags = make(map[string]time.Duration)
	}
	e.lags[what] = behind
}

// certificatesNoted is the lag above which the doctor warns that new certificates are not valid
// everywhere yet. A smaller lag passes before a host gets the certificate.
const certificateLagWarning = time.Minute

// newCertificates checks whether new certificates of this machine are valid at once by the site's
// clocks. openshift-install does not backdate certificates.
func (e *diagnosis) checkNewCertificates() []Finding {
	if len(e.lags) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(e.lags))
	slowest := slices.MaxFunc(names, func(a, b string) int { return cmp.Compare(e.lags[a], e.lags[b]) })
	finding := Finding{Area: Clocks, Subject: "new certificates", Status: Green,
		Check: "whether a certificate that is made here now is valid by all clocks that answered", Result: "yes"}
	if lag := e.lags[slowest]; lag > certificateLagWarning {
		finding.Status = Amber
		finding.Result = fmt.Sprintf("by the clock of %s it is not valid for another %s: certificates begin when "+
			"they are made", slowest, lag.Round(time.Second))
		finding.Advice = "Set the clocks of the site by one time server before hosts are started."
	}
	return []Finding{finding}
}

// skewVerdict rates how far another clock is ahead of this machine's, and returns advice.
func skewStatus(ahead time.Duration) (Status, string) {
	switch {
	case ahead.Abs() >= skewError:
		return Red, "Set this machine's clock: certificates that are made here would not be valid for the hosts."
	case ahead.Abs() >= skewWarning:
		return Amber, "Set this machine's clock by the site's time server."
	}
	return Green, ""
}

// difference describes how far another clock is ahead of this machine's.
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
