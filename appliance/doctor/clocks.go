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
	skewNoted = time.Second
	skewFatal = 20 * time.Minute
	// farAway is the root distance above which chrony rejects a source by default (maxdistance 3
	// s).
	farAway = 3 * time.Second
)

func (e *examination) clockChecks() []check {
	if len(e.site.NTPSources) == 0 {
		return []check{func(context.Context) []Finding {
			return []Finding{{
				Area: Clocks, Subject: "time servers", Verdict: Amber, Asked: "which time servers hosts are told",
				Answered: "none",
				Do: "Name the site's time servers (ntp_sources in the configuration, or the infra-env's additional " +
					"NTP sources); without them hosts depend on what DHCP says.",
			}}
		}}
	}
	var checks []check
	for _, source := range e.site.NTPSources {
		checks = append(checks, func(context.Context) []Finding { return []Finding{e.timeServer(source)} })
	}
	return checks
}

// timeServer requests the time from a time server and compares the server's clock with this
// machine's.
func (e *examination) timeServer(source string) Finding {
	finding := Finding{Area: Clocks, Subject: "time server " + source, Verdict: Green, Asked: "the time, by NTP"}
	answer, err := ntp.QueryWithOptions(source, ntp.QueryOptions{Timeout: e.Patience, GetSystemTime: e.Clock.Now})
	if err != nil {
		finding.Verdict, finding.Answered = Red, reason(err)
		finding.Do = "Check that the time server runs and its UDP port 123 is reachable from here."
		return finding
	}
	finding.Answered = fmt.Sprintf("stratum %d, %s", answer.Stratum, difference(answer.ClockOffset))
	if answer.Leap != ntp.LeapNotInSync && answer.Stratum > 0 && answer.Stratum < 16 {
		e.noteLag(source, -answer.ClockOffset)
	}
	switch {
	case answer.IsKissOfDeath():
		finding.Verdict, finding.Answered = Red, "it refuses to answer ("+answer.KissCode+")"
		finding.Do = "Have the time server allow this site's networks."
	case answer.Leap == ntp.LeapNotInSync || answer.Stratum == 0 || answer.Stratum >= 16:
		finding.Verdict = Red
		finding.Answered = "it answers, but has not found the time itself"
		finding.Do = "Give the time server a source of its own, or have it trust its own clock (chrony: local " +
			"stratum 10); hosts take no time from one that is not synchronised."
	case answer.RootDistance > farAway:
		finding.Verdict = Red
		finding.Answered += fmt.Sprintf(", as far as %s from a true clock", answer.RootDistance.Round(time.Millisecond))
		finding.Do = "Give the time server a better source; chrony on hosts takes no time from one that may be off " +
			"by 3 s or more."
	default:
		finding.Verdict, finding.Do = skewVerdict(answer.ClockOffset)
	}
	return finding
}

// noteLag records by how much a clock is behind this machine's.
func (e *examination) noteLag(what string, behind time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lags == nil {
		e.lags = make(map[string]time.Duration)
	}
	e.lags[what] = behind
}

// certificatesNoted is the lag above which the doctor warns that new certificates are not valid
// everywhere yet. A smaller lag passes before a host gets the certificate.
const certificatesNoted = time.Minute

// newCertificates checks whether new certificates of this machine are valid at once by the site's
// clocks. openshift-install does not backdate certificates.
func (e *examination) newCertificates() []Finding {
	if len(e.lags) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(e.lags))
	slowest := slices.MaxFunc(names, func(a, b string) int { return cmp.Compare(e.lags[a], e.lags[b]) })
	finding := Finding{Area: Clocks, Subject: "new certificates", Verdict: Green,
		Asked: "whether a certificate that is made here now is valid by all clocks that answered", Answered: "yes"}
	if lag := e.lags[slowest]; lag > certificatesNoted {
		finding.Verdict = Amber
		finding.Answered = fmt.Sprintf("by the clock of %s it is not valid for another %s: certificates begin when "+
			"they are made", slowest, lag.Round(time.Second))
		finding.Do = "Set the clocks of the site by one time server before hosts are started."
	}
	return []Finding{finding}
}

// skewVerdict rates how far another clock is ahead of this machine's, and returns advice.
func skewVerdict(ahead time.Duration) (Verdict, string) {
	switch {
	case ahead.Abs() >= skewFatal:
		return Red, "Set this machine's clock: certificates that are made here would not be valid for the hosts."
	case ahead.Abs() >= skewNoted:
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
