package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/access/certificate"
	"landfall/appliance/audittrail"
	"landfall/appliance/authority"
	"landfall/appliance/keyring"
	"landfall/appliance/sandbox"
	"landfall/appliance/sentence"
	"landfall/appliance/storage"
)

const (
	// warnInterval is the time between two log lines about an appliance that is open to everyone.
	warnInterval = time.Hour
	// endsSoon is the time before the end of a certificate from which on it is a finding.
	endsSoon = 30 * 24 * time.Hour
	// verifyTimeout is the time limit for the verification of the audit trail.
	verifyTimeout = 5 * time.Second
)

// Protections checks which protections of the appliance itself are active: who may use it, over
// which line, and what protects its disk and its machine.
type Protections struct {
	Listener
	TLS          bool
	Sandbox      *sandbox.Sandbox
	Keys         *keyring.Keyring
	Certificates *authority.Certificates // nil without TLS
	Clients      *certificate.Verifier   // nil if programs have no client certificates
	Trail        *audittrail.Trail
	Data         func() Finding  // whether stored data is damaged; nil: not checked
	Replica      func() *Finding // the state of the replica; nil: there is none
	Backups      func() *Finding // the state of the scheduled backups; nil: there are none
	Storage      *storage.Usage
	Clock        clockwork.Clock
	Logger       *slog.Logger
}

// Findings returns the findings that need no long checks.
func (p *Protections) Findings() []Finding {
	findings := []Finding{p.access(), p.line()}
	findings = append(findings, p.certificates()...)
	findings = append(findings, p.seal(), p.sandbox(), p.trail(), p.Disk())
	if p.Data != nil {
		findings = append(findings, p.Data())
	}
	for _, find := range []func() *Finding{p.Replica, p.Backups} {
		if find == nil {
			continue
		}
		if finding := find(); finding != nil {
			findings = append(findings, *finding)
		}
	}
	return findings
}

const (
	// fullSoon is the predicted time until the disk is full from which on it is a finding.
	fullSoon = 7 * 24 * time.Hour
	// spareSpace is the free space in bytes below which the disk is a finding: an installation
	// writes some hundred megabytes.
	spareSpace = 2 << 30
)

// Disk reports early that the disk will be full, and what fills it.
func (p *Protections) Disk() Finding {
	finding := Finding{Area: Protection, Subject: "disk space", Status: Green,
		Check: "how long the disk of the data directory will last"}
	disk, err := p.Storage.Read()
	if err != nil {
		finding.Status, finding.Result = Red, sentence.New(err)
		finding.Advice = "Check the disk of the data directory."
		return finding
	}
	finding.Result = fmt.Sprintf("%s of %s are free", sentence.Size(disk.Free), sentence.Size(disk.Total))
	left := time.Duration(disk.FullIn) * time.Second
	if left > 0 {
		finding.Result += fmt.Sprintf("; at the present growth the disk is full in %.1f days, mostly by %s",
			left.Hours()/24, cmp.Or(disk.Growing, "the database"))
	}
	switch {
	case disk.Total == 0:
		finding.Result = "the free space is unknown on this operating system"
	case disk.Free < spareSpace/8:
		finding.Status = Red
	case disk.Free < spareSpace, left > 0 && left < fullSoon:
		finding.Status = Amber
	}
	if finding.Status != Green && len(disk.Parts) > 0 {
		largest := disk.Parts[0]
		finding.Advice = fmt.Sprintf("Free space, or move the data directory. Its largest part is %s with %s; "+
			"docs/operations.md lists what can be removed.", cmp.Or(largest.Name, "the database"),
			sentence.Size(largest.Bytes))
	}
	return finding
}

// Diagnose returns all findings. It also verifies the audit trail.
func (p *Protections) Diagnose(ctx context.Context) []Finding {
	return append(p.Findings(), p.verifyTrail(ctx))
}

// Run warns in the log while clients from other machines need not log in, until the context ends.
func (p *Protections) Run(ctx context.Context) error {
	if p.Authenticates || p.IsLocal() {
		return nil
	}
	ticker := p.Clock.NewTicker(warnInterval)
	defer ticker.Stop()
	for {
		p.Logger.WarnContext(ctx, "Everyone who reaches this appliance is an administrator. "+openAdvice,
			"listen", p.Address.String())
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.Chan():
		}
	}
}

const openAdvice = "Set auth to local in the configuration, or listen on 127.0.0.1 only."

func (p *Protections) access() Finding {
	finding := Finding{Area: Protection, Subject: "accounts", Status: Green,
		Check: "whether clients must log in", Result: "clients must log in"}
	switch {
	case p.Authenticates:
	case !p.IsLocal():
		finding.Status = Red
		finding.Result = "auth is none, so everyone who reaches " + p.Address.String() + " is an administrator"
		finding.Advice = openAdvice
	default:
		finding.Result = "auth is none, and only programs on this machine reach " + p.Address.String()
	}
	return finding
}

func (p *Protections) line() Finding {
	finding := Finding{Area: Protection, Subject: "TLS", Status: Green,
		Check: "whether clients on other machines use HTTPS", Result: "clients on other machines use HTTPS"}
	switch {
	case p.TLS:
	case !p.IsLocal():
		finding.Status = Amber
		finding.Result = "tls.enabled is false, so passwords, tokens and pull secrets cross the network in clear"
		finding.Advice = "Set tls.enabled to true in the configuration, unless a proxy in front of the appliance " +
			"serves HTTPS."
	default:
		finding.Result = "tls.enabled is false, and only programs on this machine reach " + p.Address.String()
	}
	return finding
}

const validityCheck = "until when the certificates are valid"

func validity(v authority.Validity, now time.Time) Finding {
	finding := Finding{Area: Protection, Subject: v.Subject, Status: Green, Check: validityCheck,
		Result: "until " + v.Until.UTC().Format(time.DateOnly)}
	switch left := v.Until.Sub(now); {
	case left <= 0:
		finding.Status = Red
		finding.Result = "ended on " + v.Until.UTC().Format(time.DateOnly) + ", so " +
			cmp.Or(v.Effect, "clients refuse it")
	case now.Before(v.From):
		finding.Status = Red
		finding.Result = "valid from " + v.From.UTC().Format("2006-01-02 15:04") + " UTC on, and this machine's " +
			"clock shows " + now.UTC().Format("2006-01-02 15:04") + " UTC, so " + cmp.Or(v.Effect, "clients refuse it")
		finding.Advice = "Correct the clock if it is wrong, or use a certificate that is valid now."
	case v.Late:
		finding.Status = Amber
		finding.Result += ", and it should have been renewed before now"
	case left < endsSoon && !v.Renewed:
		finding.Status = Amber
	}
	if finding.Status != Green && finding.Advice == "" {
		finding.Advice = v.Remedy
	}
	return finding
}

func (p *Protections) certificates() []Finding {
	if p.Certificates == nil {
		return nil
	}
	validities, problems := p.Certificates.Validities(), []string{p.Certificates.Problem()}
	if p.Clients != nil {
		validities, problems = append(validities, p.Clients.Validities()...), append(problems, p.Clients.Problem())
	}
	var findings []Finding
	now := p.Clock.Now()
	for _, v := range validities {
		findings = append(findings, validity(v, now))
	}
	for _, problem := range problems {
		if problem != "" {
			findings = append(findings, Finding{Area: Protection, Subject: "certificates", Status: Amber,
				Check: validityCheck, Result: problem,
				Advice: "Correct the file. Its previous content remains in use until then."})
		}
	}
	return findings
}

func (p *Protections) seal() Finding {
	finding := Finding{Area: Protection, Subject: "data key", Status: Green,
		Check: "with what the data on the disk is sealed"}
	switch method := p.Keys.With(); method {
	case keyring.File:
		finding.Result = "a key file, which by default is on the same disk, so a copy of the whole disk can be read"
		finding.Advice = "If disks may be stolen, set seal.with to tpm or passphrase, or put seal.key_file on " +
			"another medium."
	case keyring.Passphrase:
		finding.Result = "a passphrase"
	case keyring.Credential:
		finding.Result = "a credential of systemd"
	default:
		finding.Result = strings.ToUpper(string(method)) + " of this machine"
	}
	return finding
}

func (p *Protections) sandbox() Finding {
	finding := Finding{Area: Protection, Subject: "sandbox", Status: Green,
		Check: "which measures restrict the openshift-install of a release"}
	var active, missing []string
	for _, m := range p.Sandbox.Measures() {
		if m.Active {
			active = append(active, string(m.ID))
		} else {
			missing = append(missing, string(m.ID)+" ("+cmp.Or(m.Reason, "not possible here")+")")
		}
	}
	finding.Result = "active: " + cmp.Or(strings.Join(active, ", "), "none")
	if len(missing) > 0 {
		finding.Status = Amber
		finding.Result += "; missing: " + sentence.Shorten(strings.Join(missing, ", "), 400)
		finding.Advice = "Run the appliance where the kernel permits user namespaces and Landlock; see the section " +
			"about the sandbox in docs/security.md. Otherwise allow only releases that you trust."
	}
	return finding
}

func (p *Protections) trail() Finding {
	finding := Finding{Area: Protection, Subject: "audit trail", Status: Green,
		Check: "whether changes are recorded", Result: "the last record is " + p.Trail.Head().String()}
	if err := p.Trail.Failing(); err != nil {
		finding.Status = Red
		finding.Result = "records cannot be written: " + err.Error()
		finding.Advice = "Make space on the disk of the data directory, and check that it is writable."
	}
	return finding
}

func (p *Protections) verifyTrail(ctx context.Context) Finding {
	finding := Finding{Area: Protection, Subject: "audit trail", Status: Green, Check: "whether it was altered"}
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	switch report, err := p.Trail.Verify(ctx, audittrail.Expect{}); {
	case errors.Is(err, context.DeadlineExceeded):
		finding.Status, finding.Result = Unknown, "the verification takes too long here"
		finding.Advice = "Run landfall audit verify."
	case err != nil:
		finding.Status, finding.Result = Unknown, "it could not be read: "+err.Error()
		finding.Advice = "Run landfall audit verify."
	case !report.Intact():
		finding.Status = Red
		finding.Result = fmt.Sprintf("%d problems, the first: %s", len(report.Problems), report.Problems[0])
		finding.Advice = "Keep a copy of the audit trail. Run landfall audit verify, and find out who could write " +
			"the data directory."
	default:
		finding.Result = fmt.Sprintf("%d records are intact", report.Records)
	}
	return finding
}
