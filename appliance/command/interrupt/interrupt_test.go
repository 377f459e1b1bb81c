package interrupt

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestContext_secondSignalExits(t *testing.T) {
	signals, exited := make(chan os.Signal), make(chan struct{}, 1)
	ctx, end := watch(t.Context(), signals, func() { exited <- struct{}{} })
	defer end()
	signals <- syscall.SIGTERM
	<-ctx.Done()
	signals <- os.Interrupt
	<-exited
}

func TestAsk_decides(t *testing.T) {
	signals, exited := make(chan os.Signal), make(chan struct{}, 1)
	ctx, end := watch(t.Context(), signals, func() { exited <- struct{}{} })
	defer end()
	answers, asked := make(chan bool), make(chan os.Signal, 1)
	Ask(ctx, func(received os.Signal) bool {
		asked <- received
		return <-answers
	})
	signals <- os.Interrupt
	require.Equal(t, os.Interrupt, <-asked)
	answers <- false
	signals <- os.Interrupt
	select {
	case <-exited: // the signal came before the answer was read
	case <-asked:
		require.NoError(t, ctx.Err(), "no means no")
		answers <- true
		<-ctx.Done()
	}
}

func TestAsk_signalDuringTheQuestionExits(t *testing.T) {
	signals, exited := make(chan os.Signal), make(chan struct{}, 1)
	ctx, end := watch(t.Context(), signals, func() { exited <- struct{}{} })
	defer end()
	asked := make(chan struct{})
	Ask(ctx, func(os.Signal) bool {
		close(asked)
		select {}
	})
	signals <- os.Interrupt
	<-asked
	signals <- os.Interrupt
	<-exited
}

func TestAsk_serviceManagerDuringTheQuestion(t *testing.T) {
	signals := make(chan os.Signal)
	ctx, end := watch(t.Context(), signals, func() { t.Error("the program ended without stopping") })
	defer end()
	asked := make(chan struct{})
	Ask(ctx, func(os.Signal) bool {
		close(asked)
		select {}
	})
	signals <- os.Interrupt
	<-asked
	signals <- syscall.SIGTERM
	<-ctx.Done()
}
