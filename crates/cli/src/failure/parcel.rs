//! A failure on its way between two processes of ours: whoever unpacks it has all of it.

use std::borrow::Cow;

use cardan_client::{Class, Step};
use cardan_proto::finding::{Finding, Rule};
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::session::event::Delivery;
use serde_json::{Value, json};

use super::{Circumstances, Failure};
use crate::exit::Exit;

impl Failure {
    /// All of it, for a process of ours that reports it as if it had happened there.
    pub(crate) fn parcel(&self) -> Value {
        let known = &self.circumstances;
        json!({
            // Not by its code, which some share.
            "exit": self.exit.words(),
            "class": self.class.name(),
            "message": self.message,
            "next": self.next,
            "stage": known.stage.map(Step::name),
            "delivery": known.delivery.map(Delivery::name),
            "answered": known.answered,
            "fault": known.fault.as_ref().map(pack_fault),
            "findings": known.findings.iter().map(pack_finding).collect::<Vec<_>>(),
            "stderr": known.stderr,
            "server_exit": known.server_exit,
        })
    }

    /// What [`Failure::parcel`] made.
    pub(crate) fn unpack(told: &Value) -> Option<Self> {
        let text = |name: &str| told[name].as_str();
        let exit = Exit::ALL.into_iter().find(|exit| text("exit") == Some(exit.words()))?;
        let class = Class::ALL.into_iter().find(|class| text("class") == Some(class.name()))?;
        let delivery = [Delivery::NotSent, Delivery::Sent, Delivery::Unknown];
        let circumstances = Circumstances {
            fault: unpack_fault(&told["fault"]),
            stage: text("stage").and_then(Step::parse),
            delivery: delivery.into_iter().find(|delivery| text("delivery") == Some(delivery.name())),
            answered: told["answered"] == true,
            findings: told["findings"].as_array().into_iter().flatten().filter_map(unpack_finding).collect(),
            stderr: text("stderr").unwrap_or_default().to_owned(),
            server_exit: text("server_exit").map(Into::into),
        };
        let next = text("next").map(str::to_owned);
        Some(Self {
            exit,
            class,
            message: text("message")?.to_owned(),
            next,
            circumstances: Box::new(circumstances),
        })
    }
}

fn pack_fault(fault: &Fault) -> Value {
    // As text: it may be no JSON, and numbers stay as they were written.
    let data = fault.data.as_deref().map(String::from_utf8_lossy);
    json!({ "code": fault.code, "message": fault.message, "data": data })
}

fn unpack_fault(told: &Value) -> Option<Fault> {
    let data = told["data"].as_str().map(|data| data.to_owned().into());
    Some(Fault {
        code: told["code"].as_i64()?,
        message: Cow::Owned(told["message"].as_str()?.to_owned()),
        data,
    })
}

pub(crate) fn pack_finding(finding: &Finding) -> Value {
    json!({
        "frame": finding.frame,
        "rule": finding.rule.id(),
        "call": finding.call,
        "detail": finding.detail,
        "bytes": finding.bytes,
    })
}

pub(crate) fn unpack_finding(told: &Value) -> Option<Finding> {
    let rule = Rule::ALL.iter().find(|rule| told["rule"] == rule.id())?;
    Some(Finding {
        frame: told["frame"].as_u64()?,
        rule: *rule,
        // An id is read as it is spelled.
        call: serde_json::from_str(&told["call"].to_string()).ok()?,
        detail: told["detail"].as_str()?.into(),
        bytes: told["bytes"].as_str().unwrap_or_default().into(),
    })
}

#[cfg(test)]
mod tests {
    use cardan_proto::jsonrpc::id::CallId;
    use cardan_proto::secret::{Redactor, Secret};

    use super::*;

    fn full(exit: Exit) -> Failure {
        let data = Some(r#"{"a":1.50,"b":"canary-1"}"#.into());
        let (detail, bytes) = ("canary-1 x", "canary-1 y");
        let finding =
            |call| Finding { frame: 3, rule: Rule::Noise, call, detail: detail.into(), bytes: bytes.into() };
        Failure {
            exit,
            class: Class::JsonRpc,
            message: "no".to_owned(),
            next: Some("ask canary-1".to_owned()),
            circumstances: Box::new(Circumstances {
                fault: Some(Fault { code: -32_000, message: "no canary-1".into(), data }),
                stage: Some(Step::Protocol),
                delivery: Some(Delivery::Unknown),
                answered: true,
                findings: vec![finding(Some(CallId::text("1"))), finding(None)],
                stderr: "last\nwords".to_owned(),
                server_exit: Some("exit status: canary-1".into()),
            }),
        }
    }

    /// CLI-31: nothing is lost on the way.
    #[test]
    fn what_is_packed_is_unpacked_whole() {
        for exit in Exit::ALL {
            for failure in [full(exit), Failure::new(exit, "short")] {
                let parcel = failure.parcel();
                let again: Value = serde_json::from_str(&parcel.to_string()).unwrap();
                let unpacked = Failure::unpack(&again).unwrap();
                assert_eq!(format!("{unpacked:?}"), format!("{failure:?}"));
            }
        }
    }

    /// No part of a failure shows a secret.
    #[test]
    fn every_part_is_hidden() {
        let hidden = full(Exit::Fault).hiding(&Redactor::new([Secret::new("canary-1")]));
        assert!(!format!("{hidden:?}").contains("canary-1"), "{hidden:?}");
    }
}
