package poller

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/state"
)

// Chat fails on the first message of three lanes and then works.
func TestSendFailure_WhatItMeans(t *testing.T) {
	hangUp := func(string, http.ResponseWriter, func()) bool { panic(http.ErrAbortHandler) }
	for _, c := range []struct {
		name   string
		fault  func(string, http.ResponseWriter, func()) bool
		others bool          // messages of other lanes go meanwhile
		after  time.Duration // when the first goes
		aside  bool
		notice string
		found  bool // it is asked for before it is sent again
	}{
		{
			"wrong token", answerWithError(403, "PERMISSION_DENIED", "no"), false, time.Minute,
			false, "nothing can be sent", false,
		},
		{
			"wrong key", answerWithError(400, "INVALID_ARGUMENT", "API key not valid"), false,
			time.Minute, false, "nothing can be sent", false,
		},
		{
			"refused", answerWithError(400, "INVALID_ARGUMENT", "no such field"), true, 0, true,
			"was refused", false,
		},
		{
			"space gone", answerWithError(404, "NOT_FOUND", "no"), true, 0, true, "was refused",
			false,
		},
		{
			"too many", answerWithError(429, "RESOURCE_EXHAUSTED", "slow"), false, time.Second,
			false, "", false,
		},
		{"too many, says when", answerWithError(429, "RESOURCE_EXHAUSTED", "slow", "Retry-After",
			"77"),
			false, 77 * time.Second, false, "", false},
		{
			"stumbles", answerWithError(503, "UNAVAILABLE", "sorry"), true, time.Second, false, "",
			true,
		},
		{"hangs up", hangUp, false, time.Second, false, "", true},
		{"cut after storing", breakAfterStore, false, time.Second, false, "", true},
		{"a hotel's network", func(_ string, w http.ResponseWriter, _ func()) bool {
			fmt.Fprint(w, "<html>")
			return true
		},
			false, time.Second, false, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newSendTest(t)
			first := o.enqueueReport("a", "first")
			o.setFault(c.fault)
			next := o.send()
			got := o.reloadMessage(first)
			kit.True(t, (got.SetAsideReason != "") == c.aside && got.LastError != "",
				"set aside: %q, last error: %q", got.SetAsideReason, got.LastError)
			if c.after > 0 && next.Sub(o.now()).Round(time.Second) != c.after {
				t.Errorf("next in %v, want %v", next.Sub(o.now()), c.after)
			}
			text := o.sessions().TakeNotices("a")
			kit.True(t, (c.notice == "") == (text == "") && strings.Contains(text, c.notice),
				"notice %q, want %q", text, c.notice)
			o.setFault(nil)
			second, other := o.enqueueReport("a", "second"), o.enqueueReport("b", "other")
			o.send()
			kit.Equalf(t, o.reloadMessage(other).IsFinal(), c.others,
				"the other lane's message sent")
			kit.Equalf(t, o.reloadMessage(second).IsFinal(), c.aside,
				"the same lane's message sent")
			o.findCount = 0
			o.sendAfter(c.after)
			kit.True(t, o.reloadMessage(first).IsFinal() && o.reloadMessage(second).IsFinal() &&
				o.reloadMessage(other).IsFinal(),
				"something still waits")
			n := o.findCount
			kit.True(t, (n > 0) == c.found, "asked for %d times", n)
			seen := o.texts()
			kit.True(t, slices.Contains(seen, "first") != c.aside && len(seen) == 3-intOf(c.aside),
				"in the space: %q", seen)
			kit.Equalf(t, o.sessions().TakeNotices("a"), "", "a second notice")
			space := o.spaces().Get(o.sender.gatewayFor(t.Context(),
				configSource{}).transport.Chat())
			kit.True(t, space.Failures == 0 && len(space.PausedWebhooks) == 0,
				"the space is still in trouble: %+v", space)
		})
	}
}

func TestSendFailure_PausesGrow(t *testing.T) {
	o := newSendTest(t)
	message := o.enqueueReport("a", "x")
	o.setFault(answerWithError(500, "INTERNAL", "no"))
	for _, want := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		next := o.send()
		kit.True(t, next.Sub(o.now()).Round(time.Second) == time.Duration(want)*time.Second,
			"after %d tries: %v, want %d s", o.reloadMessage(message).FailedTries,
			next.Sub(o.now()), want)
		o.advance(time.Duration(want) * time.Second)
	}
	kit.Equalf(t, len(o.posts), 11, "tries")
}

// The connections of eight lanes break at once. That is one failure.
func TestSendFailure_LanesTogetherAreOne(t *testing.T) {
	o := newSendTest(t)
	var together sync.WaitGroup
	together.Add(maxParallelLanes)
	o.setFault(func(string, http.ResponseWriter, func()) bool {
		together.Done()
		together.Wait()
		panic(http.ErrAbortHandler)
	})
	for i := range maxParallelLanes {
		o.enqueueReport(fmt.Sprint(i), "x")
	}
	next := o.send()
	kit.True(t, next.Sub(o.now()).Round(time.Second) == time.Second,
		"next in %v", next.Sub(o.now()))
}

func TestSendFailure_PausedWebhookTriedEachMinute(t *testing.T) {
	o := newSendTest(t)
	o.setFault(answerWithError(403, "PERMISSION_DENIED", "no"))
	for i := range 5 {
		o.enqueueReport(fmt.Sprint(i), "x")
	}
	o.send() // all lanes are under way before the first answer
	o.posts = nil
	for minute := range 4 {
		o.advance(time.Minute)
		o.sender = o.poller.newSender() // a poller that has just started keeps to it, too
		for range 3 {
			o.send()
			o.advance(time.Second)
		}
		kit.Equalf(t, len(o.posts), minute+1, "tries in %d minutes", minute+1)
	}
}

// A person asks for another try with `gchat-hooks flush`. A running poller then sends the
// message at once, whatever pause it had noted.
func TestSendFailure_FlushEndsPause(t *testing.T) {
	for name, fault := range map[string]func(string, http.ResponseWriter, func()) bool{
		"the webhook was wrong": answerWithError(http.StatusForbidden, "PERMISSION_DENIED", "no"),
		"too many": answerWithError(http.StatusTooManyRequests, "RESOURCE_EXHAUSTED",
			"slower"),
	} {
		t.Run(name, func(t *testing.T) {
			o := newSendTest(t)
			message := o.enqueueReport("a", "first")
			o.setFault(fault)
			o.send()
			o.setFault(nil)
			o.send()
			kit.Must(t, !o.reloadMessage(message).IsFinal(), "it does not wait")
			o.advance(time.Millisecond)
			message = o.reloadMessage(message)
			_, err := o.sender.outbox.Change(message.Path, func(message *state.Message) {
				message.NotBefore = o.now().UTC()
			})
			kit.NoError(t, err)
			hook := o.sender.gatewayFor(t.Context(), configSource{message.ProjectDir,
				message.IsTrusted}).transport
			_, err = o.sender.spaces.Change(hook.Chat(), func(s *state.Space) {
				s.NotBefore, s.PausedWebhooks = time.Time{}, nil
			})
			kit.NoError(t, err)
			o.send()
			kit.True(t, o.reloadMessage(message).IsFinal(), "it still waits")
		})
	}
}

func TestSendFailure_NoWebhookNoticeOnce(t *testing.T) {
	o := newSendTest(t)
	url := o.vars["GOOGLE_CHAT_WEBHOOK_URL"]
	delete(o.vars, "GOOGLE_CHAT_WEBHOOK_URL")
	message, env :=
		o.enqueueReport("a", "x", func(message *state.Message) { message.Environment = "" }),
		o.poller.environment
	o.sender.environment = message.Environment
	for i := range 3 {
		o.send()
		text := o.sessions().TakeNotices("a")
		kit.True(t, strings.Contains(text, "no webhook") == (i == 0), "pass %d: %q", i, text)
		o.advance(2 * time.Minute)
	}
	o.vars["GOOGLE_CHAT_WEBHOOK_URL"] = url
	o.send()
	o.checkTexts("x")
	kit.True(t, env != message.Environment, "two environments are one")
}

// A poller that ends interrupts the command for the webhook. The webhook does not count
// as broken.
func TestSendFailure_CutCommandIsNone(t *testing.T) {
	o := newSendTest(t)
	delete(o.vars, "GOOGLE_CHAT_WEBHOOK_URL")
	o.writeConfig(`{"webhook_url_command": "sleep 5"}`)
	o.poller.environment = state.Environment(o.env)
	message := o.enqueueReport("a", "x")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	o.sender.dispatch(ctx)
	o.sender.goroutines.Wait()
	text := o.sessions().TakeNotices("a")
	kit.True(t, text == "" && o.reloadMessage(message).LastError == "" &&
		len(o.poller.gateways.bySource) == 0,
		"notes %q; last error %q; %d gateways kept", text, o.reloadMessage(message).LastError,
		len(o.poller.gateways.bySource))
}

// A message to a thread of another space is not lost. It goes into the thread of its key,
// or into a new one. A message that Chat refuses for another reason is tried twice at
// most.
func TestSendFailure_ThreadOfAnotherSpace(t *testing.T) {
	o := newSendTest(t, strict.OtherThreads)
	keyed := o.enqueueReport("a", "keyed", func(message *state.Message) {
		message.ThreadName = "spaces/OLD/threads/T"
	})
	alone := o.enqueueReport("", "alone", func(message *state.Message) {
		message.ThreadName = "spaces/OLD/threads/T"
	})
	o.send()
	keyed, alone = o.reloadMessage(keyed), o.reloadMessage(alone)
	kit.True(t, !keyed.SentAt.IsZero() && !alone.SentAt.IsZero() &&
		keyed.ThreadName != alone.ThreadName,
		"keyed: %q in %s; alone: %q in %s", keyed.LastError, keyed.ThreadName, alone.LastError,
		alone.ThreadName)
	session, err := o.sessions().Get("a")
	kit.True(t, err == nil && session.ThreadName == keyed.ThreadName,
		"the session knows %q, want %q (%v)", session.ThreadName, keyed.ThreadName, err)
	o.posts = nil
	o.setFault(answerWithError(400, "INVALID_ARGUMENT", "no"))
	bad := o.enqueueReport("b", "bad", func(message *state.Message) {
		message.ThreadName = keyed.ThreadName
	})
	for range 3 {
		o.send()
		o.advance(maxBackoff)
	}
	n := len(o.posts)
	kit.True(t, n == 2 && o.reloadMessage(bad).SetAsideReason != "",
		"posted %d times, set aside: %q", n, o.reloadMessage(bad).SetAsideReason)
}
