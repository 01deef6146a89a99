package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/sample"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// onlyUser1 is the configuration in which one user answers and approves.
func onlyUser1() *config.Config {
	return &config.Config{AllowedUsers: []string{"users/1"}, Approvers: []string{"users/1"}}
}

// An attachment of a message that is used was not read, and a note says so, whatever
// was asked. A message that is not used gets no such note.
func TestJudge_AttachmentGetsNote(t *testing.T) {
	two := []state.SubQuestion{
		{Question: "Which?", Options: []state.Option{{Label: "One"}, {Label: "Two"}}},
		{Question: "Why?"},
	}
	decision := []state.SubQuestion{sample.AllowOrDeny()}
	cfg := onlyUser1()
	for _, tt := range []struct {
		name, text string
		kind       state.Kind
		prompts    []state.SubQuestion
		told       bool
	}{
		{"an answer", "1", state.KindQuestion, two[:1], true},
		{"own words", "see the picture", state.KindQuestion, two[:1], true},
		{"one of two answers", "Q1: 2", state.KindQuestion, two, true},
		{"a yes", "yes", state.KindPermission, decision, true},
		{
			"the next instruction", "do as in the file", state.KindNext,
			[]state.SubQuestion{{Question: "Next?"}}, true,
		},
		{"an option that there is not", "9", state.KindQuestion, two[:1], false},
		{"nothing but the attachment", "", state.KindQuestion, two[:1], false},
	} {
		for _, attached := range []bool{true, false} {
			now := time.Now()
			q := &state.Question{
				QuestionID: "q", Kind: tt.kind, Mode: state.ModeNative, Status: state.Pending,
				AskedAt: now, IsMessageSent: true,
				SubQuestions: tt.prompts, Approvers: &[]string{"users/1"},
			}
			m := state.Reply{
				MessageName: "m", Sender: "users/1", Text: tt.text, CreatedAt: now,
				HasAttachment: attached,
			}
			kit.Must(t, AddReply(q, m, false), "%s: not stored", tt.name)
			JudgeReply(cfg, q, q.FindReply("m"), now)
			owed := slices.Contains(q.OwedNotes, state.OwedNote{
				About: state.NoteAttached, ReplyMessage: "m",
			})
			kit.Equalf(t, owed, (attached && tt.told), "%s, attached %t: owes %v", tt.name,
				attached, q.OwedNotes)
			texts := wording.NoteTexts(q, state.OwedNote{
				About: state.NoteAttached, ReplyMessage: "m",
			})
			kit.True(t, strings.Contains(texts[0], "attachment was not read"),
				"%s: %q", tt.name, texts)
		}
	}
}

// A file does not change what a reply means. Claude is told where it is beside the
// answer, in the reason of a no, or as the person's words if there are no others. Where
// Claude is told no words, the thread is told so.
func TestJudge_AnswerNamesFile(t *testing.T) {
	const line = "Attached file: /s/files/a-1.png (image/png, a.png)"
	file := state.AttachedFile{Name: "a.png", Path: "/s/files/a-1.png", Type: "image/png"}
	which := state.SubQuestion{
		Question: "Which?", Options: []state.Option{{Label: "One"}, {Label: "Two"}},
	}
	why := state.SubQuestion{Question: "Why?"}
	allow, cfg := sample.AllowOrDeny(), onlyUser1()
	for _, tt := range []struct {
		name, text     string
		kind           state.Kind
		mode           state.Mode
		asked          []state.SubQuestion
		answers, notes string // of all subquestions, separated by "; "
		isLost         bool
	}{
		{"an option", "2", state.KindQuestion, state.ModeNative,
			[]state.SubQuestion{which}, "Two", line, false},
		{"a remark", "2 - like this", state.KindQuestion, state.ModeNative,
			[]state.SubQuestion{which}, "Two", "like this\n" + line, false},
		{"own words", "see there", state.KindQuestion, state.ModeNative,
			[]state.SubQuestion{which}, "see there\n" + line, "", false},
		{"a file alone", "", state.KindQuestion, state.ModeNative,
			[]state.SubQuestion{which}, line, "", false},
		{"two answers", "Q1: 2\nQ2: because", state.KindQuestion, state.ModeNative,
			[]state.SubQuestion{which, why}, "Two; because", line + "; ", false},
		{"a no", "no, as here", state.KindPermission, state.ModeNative,
			[]state.SubQuestion{allow}, state.LabelDeny, "as here\n" + line, false},
		{"a yes", "yes", state.KindPermission, state.ModeNative,
			[]state.SubQuestion{allow}, state.LabelAllow, "", true},
		{"an instruction", "build it", state.KindNext, state.ModeNative,
			[]state.SubQuestion{why}, "build it\n" + line, "", false},
	} {
		now := time.Now()
		q := &state.Question{
			QuestionID: "q", Kind: tt.kind, Mode: tt.mode, Status: state.Pending, AskedAt: now,
			IsMessageSent: true, SubQuestions: tt.asked, Approvers: &[]string{"users/1"},
		}
		r := state.Reply{
			MessageName: "m", Sender: "users/1", Text: tt.text, CreatedAt: now,
			HasAttachment: true, Files: []state.AttachedFile{file},
		}
		kit.Must(t, AddReply(q, r, false), "%s: not stored", tt.name)
		JudgeReply(cfg, q, q.FindReply("m"), now)
		var answers, notes []string
		for _, subQuestion := range tt.asked {
			answers = append(answers, q.Answers[subQuestion.Question])
			notes = append(notes, q.Notes[subQuestion.Question])
		}
		kit.Equalf(t, strings.Join(answers, "; "), tt.answers, "%s: the answers", tt.name)
		kit.Equalf(t, strings.Join(notes, "; "), tt.notes, "%s: the notes", tt.name)
		kit.Equalf(t, len(q.OwedNotes) > 0, tt.isLost, "%s: owes %v", tt.name, q.OwedNotes)
		kit.Containsf(t, *q.Response, strings.Trim(tt.text+"\n"+line, "\n"), "%s: the response", tt.name)
	}
	q := &state.Question{Mode: state.ModeThread, Status: state.Pending}
	r := state.Reply{MessageName: "m", Sender: "users/1", Text: "done", Files: []state.AttachedFile{file}}
	JudgeReply(cfg, q, &r, time.Now())
	kit.Equalf(t, *q.Response, "done\n"+line, "what gchat-wait gets")
	q = &state.Question{
		Mode: state.ModeNative, Status: state.Pending, SubQuestions: []state.SubQuestion{which},
	}
	r.Text = "chat: which one is this?"
	JudgeReply(cfg, q, &r, time.Now())
	kit.Equalf(t, q.Declined+": "+q.DeclinedText, "chat: which one is this?\n"+line, "a chat")
}

// The first clear reply of an approver decides a permission, if it was written after the
// permission was asked.
func TestJudge_ApproverDecides(t *testing.T) {
	asked := time.Now().Add(-time.Minute).Truncate(time.Second)
	early := asked.Add(-5 * time.Second)
	cfg := &config.Config{
		AllowedUsers: []string{"users/1", "users/2"}, Approvers: []string{"users/1"},
	}
	for name, test := range map[string]struct {
		replies []state.Reply
		want    string // the decision; "" for none
		owed    string // the note that the last reply gets
		seen    string
	}{
		"an approver": {
			[]state.Reply{{Sender: "users/1", Text: "yes"}}, state.LabelAllow, "", "",
		},
		"who may only answer": {
			[]state.Reply{{Sender: "users/2", Text: "yes"}}, "", state.NoteRefused,
			wording.NotApprover,
		},
		"a stranger": {
			[]state.Reply{{Sender: "users/3", Text: "yes"}}, "", state.NoteRefused, "",
		},
		"before all of it was there": {
			[]state.Reply{{Sender: "users/1", Text: "yes", CreatedAt: early}}, "",
			state.NoteUnclear, wording.TooEarlyHint,
		},
		"a stranger, before that": {
			[]state.Reply{{Sender: "users/3", Text: "yes", CreatedAt: early}}, "", "", "",
		},
		"unclear, twice": {
			[]state.Reply{{Sender: "users/1", Text: "ok"}, {Sender: "users/1", Text: "ok"}}, "",
			state.NoteUnclear, "",
		},
		"unclear, then clear": {
			[]state.Reply{{Sender: "users/1", Text: "hm"}, {Sender: "users/1", Text: "no"}},
			state.LabelDeny, state.NoteUnclear, "",
		},
		"decided twice": {
			[]state.Reply{{Sender: "users/1", Text: "no"}, {Sender: "users/1", Text: "yes"}},
			state.LabelDeny, state.NoteLate, "",
		},
		"always, not offered": {
			[]state.Reply{{Sender: "users/1", Text: "always"}}, "", state.NoteUnclear, "",
		},
		"more": {
			[]state.Reply{{Sender: "users/1", Text: "more"}}, "", state.NoteFullText, "",
		},
		"a number that no option has": {
			[]state.Reply{{Sender: "users/1", Text: "2"}, {Sender: "users/1", Text: "2"}}, "",
			state.NoteUnclear, "",
		},
	} {
		q := &state.Question{
			Kind: state.KindPermission, Mode: state.ModeNative, Status: state.Pending,
			AskedAt: asked, PostedAt: &asked, Approvers: &[]string{},
			SubQuestions: []state.SubQuestion{
				{
					Question: "Bash",
					Options:  []state.Option{{Label: state.LabelAllow}, {Label: state.LabelDeny}},
				},
			},
		}
		for i, r := range test.replies {
			r.MessageName = string(rune('a' + i))
			if r.CreatedAt.IsZero() {
				r.CreatedAt = asked.Add(time.Duration(i+1) * time.Second)
			}
			q.Replies = append(q.Replies, r)
			JudgeReply(cfg, q, &q.Replies[i], time.Now())
		}
		got, _ := q.Decision()
		kit.True(t, got == test.want && (q.Status == state.Answered) == (test.want != ""),
			"%s: %q, %s", name, got, q.Status)
		last := state.OwedNote{}
		if len(q.OwedNotes) > 0 {
			last = q.OwedNotes[len(q.OwedNotes)-1]
		}
		kit.True(t, last.About == test.owed && last.Text == test.seen, "%s: notes %+v", name, last)
	}
}

// A next instruction is typed exactly as it was written, unless Claude Code's prompt
// would read it as something else.
func TestJudge_NextInstructionIsVerbatim(t *testing.T) {
	asked := time.Now().Add(-time.Minute)
	cfg := &config.Config{AllowedUsers: []string{"users/1"}, Approvers: []string{"users/1"}}
	for text, want := range map[string]string{
		"commit it": "commit it", "1": "1", "yes\nand push": "yes\nand push", "!rm -rf /": "",
		"/exit": "", " /clear": "", "# remember": "",
		"exit": "", " quit\n": "", ":q": "", ":q!": "", ":wq": "", ":wq!": "",
		"exit now": "exit now", "Exit": "Exit", ":x": ":x",
		"\u0301abc": "", "\u0301": "", "e\u0301t\u00e9": "e\u0301t\u00e9", "@/etc/hosts": "",
		"see @README.md": "", "a@b.example": "a@b.example",
	} {
		q := &state.Question{Kind: state.KindNext, Mode: state.ModeNative, Status: state.Pending,
			AskedAt: asked, PostedAt: &asked,
			SubQuestions: []state.SubQuestion{{Question: "next"}}, Replies: []state.Reply{
				{MessageName: "a", Sender: "users/1", Text: text, CreatedAt: time.Now()},
			}}
		JudgeReply(cfg, q, &q.Replies[0], time.Now())
		got, _ := q.Decision()
		kit.True(t, got == want && len(q.OwedNotes) == map[bool]int{true: 0, false: 1}[want != ""],
			"%q: %q, %+v", text, got, q.OwedNotes)
	}
}

// The stricter of the record and the configuration says who decides. If the record does
// not say it, only the terminal can allow.
func TestJudge_StricterOfRecordAndConfiguration(t *testing.T) {
	asked := time.Now().Add(-time.Minute).Truncate(time.Second)
	cfg := &config.Config{
		AllowedUsers: []string{"users/1", "users/2"}, Approvers: []string{"users/1", "users/2"},
	}
	guarded := *cfg
	guarded.NeverRemote = []string{"Bash(git push*)"}
	all := []string{state.LabelAllow, state.LabelDeny, state.LabelAlways}
	for name, test := range map[string]struct {
		cfg       *config.Config
		approvers *[]string
		never     []string
		call      string
		by, text  string
		want      string
	}{
		"who could and can": {
			cfg, &[]string{"users/1"}, nil, "make", "users/1", "yes", state.LabelAllow,
		},
		"who can now, and could not": {
			cfg, &[]string{"users/1"}, nil, "make", "users/2", "yes", "",
		},
		"who could, and cannot now": {
			&config.Config{Approvers: []string{"users/2"}}, &[]string{"users/1"}, nil, "make",
			"users/1", "yes", "",
		},
		"nobody was on the list": {
			cfg, &[]string{}, nil, "make", "users/2", "yes", state.LabelAllow,
		},
		"the record does not say": {cfg, nil, nil, "make", "users/1", "yes", ""},
		"the record does not say, denied": {
			cfg, nil, nil, "make", "users/1", "no", state.LabelDeny,
		},
		"named since": {
			&guarded, &[]string{"users/1"}, nil, "git push", "users/1", "yes", "",
		},
		"named since, denied": {
			&guarded, &[]string{"users/1"}, nil, "git push", "users/1", "no", state.LabelDeny,
		},
		"not named": {
			&guarded, &[]string{"users/1"}, nil, "make", "users/1", "yes", state.LabelAllow,
		},
		"always, beside rules that are new": {
			&guarded, &[]string{"users/1"}, nil, "make", "users/1", "always", "",
		},
		"always, held against the same rules": {
			&guarded, &[]string{"users/1"}, guarded.NeverRemote, "make", "users/1", "always",
			state.LabelAlways,
		},
		"a local reply, as of the page": {
			cfg, &[]string{}, nil, "make", state.LocalSender, "yes", "",
		},
	} {
		q := &state.Question{
			Kind: state.KindPermission, ToolName: "Bash", Mode: state.ModeNative,
			Status: state.Pending, AskedAt: asked, PostedAt: &asked,
			Approvers: test.approvers, NeverRemote: test.never, CallTexts: []string{test.call},
			SubQuestions: []state.SubQuestion{{Question: "Bash"}},
			Replies: []state.Reply{
				{MessageName: "a", Sender: test.by, Text: test.text, CreatedAt: time.Now()},
			},
		}
		for _, label := range all {
			q.SubQuestions[0].Options = append(q.SubQuestions[0].Options, state.Option{
				Label: label,
			})
		}
		RestrictChoices(test.cfg, q)
		JudgeReply(test.cfg, q, &q.Replies[0], time.Now())
		got, _ := q.Decision()
		kit.True(t, got == test.want,
			"%s: %q, want %q (%s)", name, got, test.want, q.Replies[0].Verdict)
	}
}

func TestJudge_CanAnswerFailsClosed(t *testing.T) {
	for _, c := range []struct {
		users  []string
		sender state.Reply
		want   bool
	}{
		{nil, state.Reply{Sender: "users/1"}, false},
		{[]string{""}, state.Reply{}, false},
		{[]string{"users/1"}, state.Reply{Sender: "users/1"}, true},
		{[]string{"users/1"}, state.Reply{Sender: "users/11"}, false},
		{[]string{"1"}, state.Reply{Sender: "1"}, false},
		{[]string{"*", "users/*", "all", "users/"}, state.Reply{Sender: "users/1"}, false},
		{
			[]string{"Ann@Example.com"},
			state.Reply{Sender: "users/1", SenderEmail: "ann@example.com"}, true,
		},
		{
			[]string{"users/ann@example.com"},
			state.Reply{Sender: "users/1", SenderEmail: "ann@example.com"}, true,
		},
		{
			[]string{"ann@example.com"},
			state.Reply{Sender: "users/1", DisplayName: "ann@example.com"}, false,
		},
		{[]string{"ann@example.com"}, state.Reply{Sender: "users/1"}, false},
		{[]string{"users/"}, state.Reply{Sender: "users/"}, false},
		{[]string{"users/@"}, state.Reply{Sender: "users/@", SenderEmail: "@"}, false},
		{
			[]string{"@example.com"}, state.Reply{Sender: "users/1", SenderEmail: "@example.com"},
			false,
		},
		{
			[]string{"kim@example.com"},
			state.Reply{Sender: "users/1", SenderEmail: "\u212Aim@example.com"}, false,
		},
		{
			[]string{"sam@example.com"},
			state.Reply{Sender: "users/1", SenderEmail: "\u017Fam@example.com"}, false,
		},
		{[]string{"local"}, state.Reply{Sender: "users/1"}, false},
		{nil, state.Reply{Sender: state.LocalSender}, true},
	} {
		kit.Equalf(t,
			CanAnswer(&config.Config{AllowedUsers: c.users}, &state.Question{}, &c.sender), c.want,
			"%q, %+v", c.users, c.sender)
	}
}

func TestJudge_SeveralQuestions(t *testing.T) {
	cfg := &config.Config{AllowedUsers: []string{"users/1"}}
	q := &state.Question{Status: state.Pending, SubQuestions: []state.SubQuestion{
		{Question: "A?", Options: []state.Option{{Label: "x"}, {Label: "y"}}}, {
			Question: "B?", Options: []state.Option{{Label: "z"}},
		},
	}}
	say := func(name, text string) *state.Reply {
		q.Replies = append(q.Replies, state.Reply{
			MessageName: name, Sender: "users/1", Text: text, CreatedAt: noon,
		})
		r := &q.Replies[len(q.Replies)-1]
		JudgeReply(cfg, q, r, noon)
		return r
	}
	r := say("m1", "Q1: 2")
	kit.True(t, r.Verdict == state.VerdictKept && q.PartialAnswers[0].Value() == "y" &&
		q.OwedNotes[0] == (state.OwedNote{About: state.NoteKept, ReplyMessage: "m1"}),
		"%+v, owes %+v", r, q.OwedNotes)
	r = say("m2", " Q2: 1\n")
	kit.True(t, r.Verdict == state.VerdictUsed && *q.Response == "Q2: 1" &&
		q.Answers["A?"] == "y" && q.Answers["B?"] == "z" && *q.ResponseType == "multi_question",
		"%+v, %v", r, q.Answers)
}

// A tap on a button that the card does not have, and that also names an option, is
// asked back. It keeps nothing, and does not take over what was answered before.
func TestJudge_TapOnNoButtonIsAskedBack(t *testing.T) {
	cfg := &config.Config{AllowedUsers: []string{"users/1"}}
	for choice, label := range map[string]string{
		state.DeclinedSkip: "Skip tests",
		state.DeclinedChat: "Chat about this",
	} {
		for name, partial := range map[string]map[int]state.Answer{
			"nothing answered": nil,
			"one answered":     {0: {Labels: []string{"x"}}},
		} {
			q := &state.Question{Status: state.Pending, PartialAnswers: partial,
				SubQuestions: []state.SubQuestion{
					{Question: "A?", Options: []state.Option{{Label: "x"}}},
					{Question: "B?", Options: []state.Option{{Label: label}}},
				}}
			r := &state.Reply{
				MessageName: "tap/1", Sender: "users/1", Text: choice, Choice: choice,
				CreatedAt: noon,
			}
			JudgeReply(cfg, q, r, noon)
			isTold := slices.Equal(q.OwedNotes, []state.OwedNote{
				{About: state.NoteUnclear, ReplyMessage: "tap/1"},
			})
			kit.True(t, r.Verdict == state.VerdictAskedBack && isTold &&
				len(q.PartialAnswers) == len(partial) && q.Declined == "",
				"%s, %s: %s, owes %+v, kept %v", choice, name, r.Verdict, q.OwedNotes,
				q.PartialAnswers)
		}
	}
}

// A reply with `gchat-hooks answer` is answered in the shell, and not in the thread.
func TestJudge_ShellReplyGetsNoNote(t *testing.T) {
	for text, want := range map[string]state.Verdict{
		"9": state.VerdictAskedBack, "1": state.VerdictUsed,
	} {
		q := &state.Question{
			Status: state.Pending,
			SubQuestions: []state.SubQuestion{
				{Question: "A?", Options: []state.Option{{Label: "x"}, {Label: "y"}}},
			},
		}
		r := &state.Reply{
			MessageName: ShellReplyPrefix + "1", Sender: state.LocalSender, Text: text,
			CreatedAt: noon,
		}
		JudgeReply(&config.Config{}, q, r, noon)
		kit.True(t, r.Verdict == want && len(q.OwedNotes) == 0,
			"%s: %s, owes %+v", text, r.Verdict, q.OwedNotes)
		if JudgeReply(&config.Config{}, q, r, noon); want == state.VerdictUsed &&
			(r.Verdict != state.VerdictLate || len(q.OwedNotes) != 0) {
			t.Errorf("again: %s, owes %+v", r.Verdict, q.OwedNotes)
		}
	}
}

// Whatever a reply says, judging it ends with a verdict, and with an answer to every
// question or to none.
func FuzzJudge(f *testing.F) {
	f.Add("1")
	f.Add("Q2: 1; other: x\n")
	cfg := &config.Config{AllowedUsers: []string{"users/1"}}
	f.Fuzz(func(t *testing.T, text string) {
		q := &state.Question{Status: state.Pending, SubQuestions: []state.SubQuestion{
			{Question: "A?", Options: []state.Option{{Label: "x"}, {Label: "y"}},
				MultiSelect: true}, {Question: "B?", Options: []state.Option{{Label: "z"}}},
		}}
		q.Replies = []state.Reply{
			{MessageName: "m", Sender: "users/1", Text: text, CreatedAt: noon},
		}
		JudgeReply(cfg, q, &q.Replies[0], noon)
		kit.True(t, q.Replies[0].Verdict != state.VerdictUnread, "no verdict")
		if q.Status == state.Answered &&
			(len(q.Answers) != 2 || q.Answers["A?"] == "" || q.Answers["B?"] == "") {
			t.Errorf("answered with %v", q.Answers)
		}
		for _, owed := range q.OwedNotes {
			kit.True(t, wording.NoteTexts(q, owed) != nil,
				"there is no text for %+v", owed)
		}
	})
}

// A reply that declines a question is used, and no reply after it is. In deny mode Claude
// gets the reply. In other modes the dialog stays.
func TestJudge_DeclinedQuestion(t *testing.T) {
	for name, c := range map[string]struct {
		mode             state.Mode
		text, choice     string
		inputs           map[string][]string
		status           state.Status
		declined, remark string
		handed           bool
		owes             string
	}{
		"chat": {
			mode: state.ModeNative, text: "chat: why?", status: state.Answered, declined: "chat",
			remark: "why?",
		},
		"a tap": {
			mode: state.ModeHold, text: "chat about this: why?", choice: "chat",
			status: state.Answered, declined: "chat", remark: "why?",
		},
		"skip": {
			mode: state.ModeNative, text: "skip", status: state.Pending, declined: "skip",
			handed: true, owes: state.NoteHandedOver,
		},
		"injected": {
			mode: state.ModeInject, text: "cancel", status: state.Pending, declined: "skip",
			handed: true, owes: state.NoteHandedOver,
		},
		"denied": {mode: state.ModeDeny, text: "skip", status: state.Answered, declined: "skip"},
		"help": {
			mode: state.ModeNative, text: "help", status: state.Pending, owes: state.NoteUnclear,
		},
		"own text": {
			mode: state.ModeNative, text: "chat", choice: "send",
			inputs: map[string][]string{"w1": {"chat"}}, status: state.Answered,
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := &state.Question{
				Mode: c.mode, Status: state.Pending, ClaudePID: 7, IsMessageSent: true,
				PostedAt: new(noon.Add(-time.Hour)),
				SubQuestions: []state.SubQuestion{
					{Question: "A?", Options: []state.Option{{Label: "x"}, {Label: "y"}}},
				},
			}
			say := func(r state.Reply) state.Verdict {
				r.Sender, r.CreatedAt = "users/1", noon
				q.Replies = append(q.Replies, r)
				last := &q.Replies[len(q.Replies)-1]
				JudgeReply(&config.Config{AllowedUsers: []string{"users/1"}}, q, last, noon)
				return last.Verdict
			}
			verdict := say(state.Reply{
				MessageName: "m1", Text: c.text, Choice: c.choice, Inputs: c.inputs,
			})
			kit.True(t, q.Status == c.status && q.Declined == c.declined &&
				q.DeclinedText == c.remark && (q.HandedOverAt != nil) == c.handed,
				"%s, %q with %q, handed over %v", q.Status, q.Declined, q.DeclinedText,
				q.HandedOverAt)
			if len(q.OwedNotes) > 0 != (c.owes != "") || c.owes != "" &&
				q.OwedNotes[0].About != c.owes {
				t.Errorf("owes %+v", q.OwedNotes)
			}
			want, then := state.VerdictUsed, state.VerdictLate
			if c.owes == state.NoteUnclear {
				// the first number that is no option is still asked back
				want, then = state.VerdictAskedHow, state.VerdictAskedBack
			}
			next := say(state.Reply{MessageName: "m2", Text: "9"})
			kit.True(t, verdict == want && next == then, "%s, then %s", verdict, next)
		})
	}
}

func TestTimeoutPolicy_ChoosesRecommended(t *testing.T) {
	prompts := []state.SubQuestion{
		{Question: "A?", Options: []state.Option{{Label: "x"}, {Label: "y (Recommended)"}}},
		{Question: "B?", Options: []state.Option{{Label: "z"}, {Label: "w"}}},
	}
	for name, c := range map[string]struct {
		policy state.TimeoutPolicy
		unread bool
		want   string
	}{
		"recommended":          {state.TimeoutRecommended, false, "y (Recommended)/w"},
		"there may be a reply": {state.TimeoutRecommended, true, "/"},
		"another policy":       {state.TimeoutAskTerminal, false, "/"},
	} {
		q := &state.Question{
			Mode: state.ModeDeny, SubQuestions: prompts, TimeoutPolicy: c.policy,
			PartialAnswers: map[int]state.Answer{1: {Labels: []string{"w"}}},
		}
		ApplyTimeoutPolicy(q, c.unread)
		got := q.Answers["A?"] + "/" + q.Answers["B?"]
		kit.True(t, got == c.want && (q.ResolvedBy == "policy") == (c.want != "/"),
			"%s: %q by %q", name, got, q.ResolvedBy)
	}
}
