package cluster

import (
	"fmt"
	"io"
	"os"

	"github.com/go-openapi/swag/conv"
	"github.com/mattn/go-isatty"
	"github.com/openshift/assisted-service/models"
	"github.com/schollz/progressbar/v3"
)

// Progress shows the progress of an installation: a bar on a terminal, a line for each change
// elsewhere.
type Progress struct {
	out  io.Writer
	bar  *progressbar.ProgressBar // nil without a terminal
	last string
}

// NewProgress returns a progress that is written to out.
func NewProgress(out io.Writer) *Progress {
	p := &Progress{out: out}
	if file, ok := out.(*os.File); ok && isatty.IsTerminal(file.Fd()) {
		p.bar = progressbar.NewOptions(100, progressbar.OptionSetWriter(out), progressbar.OptionSetWidth(30),
			progressbar.OptionSetPredictTime(false), progressbar.OptionClearOnFinish())
	}
	return p
}

// Show shows the present state of a cluster.
func (p *Progress) Show(cluster *models.Cluster) {
	percent := Percentage(cluster)
	text := fmt.Sprintf("%s: %s, %s", cluster.Name, conv.Value(cluster.Status), hostSummary(cluster.Hosts))
	if p.bar != nil {
		p.bar.Describe(text)
		if err := p.bar.Set64(percent); err != nil {
			p.bar = nil // the terminal was closed
		}
		return
	}
	if text != p.last {
		p.last = text
		fmt.Fprintf(p.out, "%3d%% %s\n", percent, text)
	}
}

// End restores the terminal.
func (p *Progress) End() {
	if p.bar != nil {
		if err := p.bar.Clear(); err != nil {
			p.bar = nil
		}
	}
}

// Percentage returns the progress of a cluster's installation, 0 to 100.
func Percentage(cluster *models.Cluster) int64 {
	if cluster.Progress == nil {
		return 0
	}
	return cluster.Progress.TotalPercentage
}

// hostSummary counts hosts by stage, in the order of the first host of each stage: "2 Rebooting, 1
// Joined".
func hostSummary(hosts []*models.Host) string {
	var order []string
	count := map[string]int{}
	for _, host := range hosts {
		state := conv.Value(host.Status)
		if host.Progress != nil && host.Progress.CurrentStage != "" && !hasStopped(host) {
			state = string(host.Progress.CurrentStage)
		}
		if count[state] == 0 {
			order = append(order, state)
		}
		count[state]++
	}
	if len(order) == 0 {
		return "no hosts yet"
	}
	text := ""
	for i, state := range order {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%d %s", count[state], state)
	}
	return text
}
