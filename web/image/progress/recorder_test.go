package progress

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRecorder_managementController(t *testing.T) {
	recorder, clock := newRecorder()
	const piece = 32 << 10
	sweep(recorder, clock, "10.0.0.7", "", full, 0, 2*mib, piece, 50*time.Millisecond)
	report := only(t, recorder.Reads("env"))
	require.Equal(t, "BMC 10.0.0.7 is reading the boot loader, 50 % of it so far, at 655 kB/s in 20 ranges a second.",
		report.Sentence)
	require.Equal(t, Reading, report.State)

	clock.Advance(time.Minute)
	require.Equal(t, "BMC 10.0.0.7 stopped 60 s ago in the boot loader at 50 %: the machine has not started the "+
		"kernel; check its boot order and its console.",
		only(t, recorder.Reads("env")).Sentence)

	sweep(recorder, clock, "10.0.0.7", "", full, 4*mib, 39*mib, piece, time.Millisecond)
	sweep(recorder, clock, "10.0.0.7", "", full, 40*mib, 40*mib+23*mib, piece, time.Millisecond)
	clock.Advance(40 * time.Second)
	report = only(t, recorder.Reads("env"))
	require.Equal(t, "BMC 10.0.0.7 has read kernel and initrd, stopped 40 s ago in the rootfs at 38 %: link too slow "+
		"or mount lost.", report.Sentence)
	require.Equal(t, Stopped, report.State)
	require.EqualValues(t, 60*mib, report.Bytes)
	require.Equal(t, 60.0, report.SharePercent)
	require.Equal(t, []Share{{"boot loader", 50}, {"kernel", 100}, {"initrd", 100}, {"config", 0}, {"rootfs", 38.3}},
		report.Segments)
	require.Equal(t, start, report.FirstRead)
	require.Equal(t, clock.Now().Add(-40*time.Second), report.LastRead)
	require.Zero(t, report.BytesPerSecond)

	registered := only(t, recorder.Reads("env", clock.Now().Add(-time.Second)))
	require.Equal(t, Finished, registered.State)
	require.Equal(t, "BMC 10.0.0.7 has read kernel and initrd, and a host of this infra-env has registered since.",
		registered.Sentence)
	require.Equal(t, Stopped, only(t, recorder.Reads("env", start.Add(-time.Hour))).State,
		"an earlier registration proves nothing")

	sweep(recorder, clock, "10.0.0.7", "", full, 40*mib, 100*mib, piece, time.Millisecond)
	report = only(t, recorder.Reads("env"))
	require.Equal(t, Finished, report.State)
	require.Equal(t, "BMC 10.0.0.7 has read all that it needs to boot (kernel, initrd and rootfs).", report.Sentence)
}

func TestClientName(t *testing.T) {
	for agent, c := range map[string]struct {
		kind, sentence string
	}{
		"Mozilla/5.0 (X11; Linux x86_64)": {"full", "The browser on 10.0.0.8 is reading"},
		"curl/8.5.0":                      {"full", "The download by curl on 10.0.0.8 is reading"},
		"curl/7.76.1":                     {"rootfs", "Host 10.0.0.8 is reading the rootfs"},
		"Wget/1.21":                       {"minimal", "The download by wget on 10.0.0.8 is reading"},
		"iPXE/1.21.1":                     {"initrd", "iPXE on 10.0.0.8 is reading the initrd"},
		"GRUB 2.12":                       {"kernel", "GRUB on 10.0.0.8 is reading the kernel"},
		"UefiHttpBoot/1.0":                {"full", "The firmware of 10.0.0.8 is reading"},
		"":                                {"full", "The client 10.0.0.8 is reading"},
	} {
		recorder, clock := newRecorder()
		image := Image{InfraEnvID: "env", Kind: c.kind, Size: 50 * mib}
		read, first := recorder.Request("10.0.0.8", agent, image, false)
		require.True(t, first)
		clock.Advance(time.Second)
		read.Sent(0, 10*mib)
		require.Contains(t, only(t, recorder.Reads("env")).Sentence, c.sentence, agent)
	}
}

func TestRecorder_downloadInProgress(t *testing.T) {
	recorder, clock := newRecorder()
	read, _ := recorder.Request("10.0.0.9", "curl/8.5.0", full, false)
	for at := int64(0); at < 20*mib; at += 2 * mib {
		clock.Advance(time.Second)
		read.Sent(at, 2*mib)
	}
	report := only(t, recorder.Reads("env"))
	require.Equal(t, 20.0, report.SharePercent)
	require.InDelta(t, 2*mib, report.BytesPerSecond, 0.5*mib)

	read.Done("the client stopped reading and was disconnected")
	require.Equal(t, "The download by curl on 10.0.0.9 has read kernel, stopped 0 s ago in the initrd at 24 %: the "+
		"client stopped reading and was disconnected.",
		only(t, recorder.Reads("env")).Sentence)

	read, first := recorder.Request("10.0.0.9", "curl/8.5.0", full, false)
	require.False(t, first, "the read continues")
	clock.Advance(90 * time.Second)
	read.Sent(20*mib, 80*mib)
	read.Done("")
	report = only(t, recorder.Reads("env"))
	require.Equal(t, Finished, report.State)
	require.Equal(t, "The download by curl on 10.0.0.9 has read all of the full image, in 100 s.", report.Sentence)
}

func TestRecorder_halfHourBreakEndsRead(t *testing.T) {
	recorder, clock := newRecorder()
	sweep(recorder, clock, "10.0.0.7", "", full, 0, mib, mib, time.Second)
	clock.Advance(sameRead + time.Second)
	_, first := recorder.Request("10.0.0.7", "", full, false)
	require.True(t, first)
	require.Zero(t, only(t, recorder.Reads("env")).SharePercent)
}

// TestRecorder_artifactsBelongToLastBootScript covers the kernel and the rootfs, whose URLs contain
// a version and no infra-env.
func TestRecorder_artifactsBelongToLastBootScript(t *testing.T) {
	recorder, clock := newRecorder()
	rootfs := Image{Kind: "rootfs", Size: mib}
	recorder.Request("10.0.0.7", "iPXE", Image{InfraEnvID: "env", Kind: "initrd", Size: mib}, false)
	recorder.Request("10.0.0.7", "curl", rootfs, false)
	recorder.Request("10.0.0.8", "curl", rootfs, false)
	require.Len(t, recorder.Reads("env"), 2)
	clock.Advance(ownership)
	recorder.Request("10.0.0.7", "another", rootfs, false)
	require.Len(t, recorder.Reads("env"), 2)
}

func TestRecorder_boundedAndDropped(t *testing.T) {
	recorder, clock := newRecorder()
	for i := range maxReads + 50 {
		clock.Advance(time.Second)
		image := full
		image.InfraEnvID = fmt.Sprintf("env-%d", i/100)
		read, _ := recorder.Request(fmt.Sprintf("10.0.%d.%d", i/200, i%200), "", image, false)
		read.Sent(0, 1)
	}
	require.Len(t, recorder.reads, maxReads)
	require.Len(t, recorder.last, maxReads)
	require.Len(t, recorder.Reads("env-0"), 50, "the reads with the oldest last bytes were dropped")
	reports := recorder.Reads("env-1")
	require.Len(t, reports, 100)
	require.True(t, reports[0].LastRead.After(reports[99].LastRead))
	recorder.DropInfraEnv("env-1")
	require.Empty(t, recorder.Reads("env-1"))
}

// TestCoverage_countsEachByteOnce compares the coverage with one flag for each byte.
func TestCoverage_countsEachByteOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var c coverage
		var plain [500]bool
		for range random.IntN(60) {
			from := random.Int64N(490)
			to := from + 1 + random.Int64N(10)
			c.add(from, to)
			for i := from; i < to; i++ {
				plain[i] = true
			}
		}
		from := random.Int64N(400)
		to := from + random.Int64N(100)
		want := int64(0)
		for _, seen := range plain[from:to] {
			if seen {
				want++
			}
		}
		require.Equal(t, want, c.within(from, to))
		for i, s := range c.spans {
			require.Less(t, s.from, s.to)
			require.True(t, i == 0 || c.spans[i-1].to < s.from)
		}
	}
}

func TestCoverage_bounded(t *testing.T) {
	var c coverage
	for i := range int64(10_000) {
		c.add(i*100, i*100+1)
	}
	require.LessOrEqual(t, len(c.spans), maxSpans)
	require.Positive(t, c.within(999_900, 999_901))
	require.Positive(t, c.within(0, 1))
}

func TestSpeed_lastSeconds(t *testing.T) {
	var r rate
	for i := range 100 {
		r.add(start.Add(time.Duration(i)*time.Second), 10)
	}
	require.InDelta(t, 10, r.perSecond(start.Add(99*time.Second), start), 3)
	require.Zero(t, r.perSecond(start.Add(120*time.Second), start))
}

func TestClientName_smallPiecesOfDownloads(t *testing.T) {
	for agent, want := range map[string]string{
		"Mozilla/5.0 (X11; Linux x86_64)": "The browser on 10.0.0.7 ",
		"Wget/1.21":                       "The download by wget on 10.0.0.7 ",
		"aria2/1.37":                      "The download by aria2 on 10.0.0.7 ",
		"python-requests/2.32":            "The client 10.0.0.7 ",
		"Go-http-client/1.1":              "The client 10.0.0.7 ",
		"curl/8.5.0":                      "BMC 10.0.0.7 ", // the library of several BMCs
		"":                                "BMC 10.0.0.7 ",
	} {
		recorder, clock := newRecorder()
		sweep(recorder, clock, "10.0.0.7", agent, full, 0, 2*mib, 32<<10, time.Millisecond)
		require.True(t, strings.HasPrefix(only(t, recorder.Reads("env")).Sentence, want), agent)
	}
}

func TestRecorder_machinesBehindOneAddress(t *testing.T) {
	recorder, clock := newRecorder()
	reads := make([]*Read, 4)
	for i := range reads {
		var first bool
		reads[i], first = recorder.Request("10.0.0.1", "iPXE/1.21", full, true)
		require.True(t, first)
		reads[i].Sent(0, int64(i+1)*10*mib)
		clock.Advance(time.Second)
	}
	shares := []float64{}
	for _, report := range recorder.Reads("env") {
		shares = append(shares, report.SharePercent)
	}
	require.Equal(t, []float64{40, 30, 20, 10}, shares)

	reads[1].Done("")
	again, first := recorder.Request("10.0.0.1", "iPXE/1.21", full, true)
	require.False(t, first, "a machine that starts again continues the read that has ended")
	require.Same(t, reads[1], again)
	part, first := recorder.Request("10.0.0.1", "iPXE/1.21", full, false)
	require.False(t, first, "requests of parts don't tell machines apart")
	require.Same(t, reads[0], part)
}
