"""State dicts are read without torch and without running them; weights that do not fit are refused."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tfdiff.errors import ModelError
from tfdiff.metrics import inception_fid
from tfdiff.metrics.inception import _average_pool, resize
from tfdiff.metrics.torch_weights import load_state_dict

#: torch.save of OrderedDict(a=arange(6.).reshape(2, 3).t(), b=tensor([1.5, -2.], dtype=float16), n=tensor(7)), in the
#: format since torch 1.6 and in the one before; and of an object whose unpickling calls print. Compressed, base 85.
ZIPPED = (
    "c-p0v&rj1}7{}kXTQ{nXA0h+%aUK!J)|GaE2sWmg)Pyl(LcBDkD_dh(dAoNQJ&_nlG%-=*!ISamjiVm*Pw;>zZytyz{{(&C7D`*P"
    "O`zGkH`$)=_xZH%^E|DnOag#(8XUU@z!1<~qhW2DQ#Bpw`Hjc6B4@y($hAcqhGW~Nfh?!l;+EW+>6*1WmVr13CaRFitx(uZhqQql"
    "?3UNs$g*3U=9;T*%dTn2Y_=R%+vGXO<Z>%19NfZ@dfkKxU&1N2qoW7@j~q;Th6Tv3FnBjM+AyWE2&R`+pfW1G1N&4;Wp*I<qCo)8"
    "A$YzDFL<I=m}%f7jYH#my1f?o_In{kIM7I`G=hV~kKTquDzyzS`d-5bUaG<oFR%%-5wH7BvmSVjdLcX<!(J4E<JfCr!uPn0;FT)8"
    "+Rj(hRQlV}-1S);N>-)gNo2w8;3V>Ej=QcSZPRpH_=zj>eC$9@cohl8=RZH66JWABV~hjo2;<<4G~Kr9&2_Vh6uER75>X%k3s2y0"
    "8mFMU0t|wM0ATegG96NEiad9gCtzC$*(PDwp8qw*;w)@eh77nB>58d>BF~-yz<1qRz+a2_gVz>b9~TKx_VxaoQT)ef52DE^QBjd|"
    "|4oE%=PSu2?(Mz92|%JpuEl6BUXgE}sQ^<4&V*s($G$_7rn@rqgSmhq=mP1q5G9Ue{{Er<uy_4k1N>0~c(>m&T?==>Go4I7&8jJK"
    "{)8ZfvM?i*%Vj~D5vL16St?Bz3W8LUL|))Up(IR~XCzVN3FYqctKA&t$a$0$fekprlVso+d3=t?)!_k<jVNDIpwsM$n}nNqJleQ4"
    "=rTFtKH)|jjQG3_`2+(XE)RE2CL$kUK&*G;+He;{wV&eJVq6=p-l%ps5!3Q<ZMgpWBii>NZHMO`E{kgs@lX=<DA<b1vXh79&D;o-"
    "eX;#6?eAZbhwaLGo%{EofBiQ{lJzxxUc4Xs59id>c>"
)
LEGACY = (
    "c-n1|$!^;)5QZsAwo_(vk}g?+9Oa8)JBpV}n?n&4V7E9IUJ5~xSxW^WdL$}90tE2IM%!oTp~pT(U#E{ypofm^G;jeET)^SX_x~7<"
    "=~t%yd^`Vr{OQO0z51BG`DNpN2gDUsLdYo9Mu%GY*D}pwoq&Z2VjW*pY>bk=Oa^g~0R1c&2F=Y#`dNG{GqCT#aYYG(S)@|~B~FEn"
    "w>U9S=8kX*hE9f1;ZB~TW{5IMh6YtK_AVXBR1RLop<zI3eXv|%VMPEmG&&8Vx}Td^Wz0|IRUWH>Z)B3`)W2>quw7SF3SrC)h7z24"
    "2|HIhFqiWngOb?5oSxVAdMDjZyV>e_9+YPu!%>d5%5M#<TyVl|PN(pQTil)k`w|s)Rt>E6VSVQ53N|8?jQ+{I3e?93mCXf}M)S1O"
    ">3R*QMiowxzE#la1h%;~ft@+|v4JOjcse5|@a#YGYwXtpd3TZA=rvp2wg-DiwvfD!<XUY`JTP$Bhohp$ABulnQf4i4NtZRqmi59}"
    "F)H^by+6rw^0Q19$M^+qXE<?<aeY7g3!=Q5{Q"
)
HOSTILE = (
    "c-jl_W@cev;NW1u00Im`42ea_8JT6N`YDMeiFyUuIc`pT3{fbcfvL8TA%YR8KCzH7IX*tAG&83pGcP`#tDq<|uY{|RDS{a&SyY-="
    "$lO}U5>&`qtQX+T&JpPR!Nmk90m1<|-5}1u4tIlIT7FS(Vo7{iYEf}!ex92XGsr21Aj7u5ztaqI0wZ3-q!`Q*h836O7bT{r#wX@v"
    "rsw6R=9RcP8KZfPC}3s+a)5n#;Y%i<6-;;?Ajn`3cR*5QNosykN@|gtlQlW^!az=DNl8vB$PKNwk0sfFwy@!K13!Z;+zs%Mv?SjJ"
    "##|t~FV0I3CG3AW1|viSfRdDcacWT}Fb1j;OMvc(&rET1(j(C+21b?!7A9sEX6EMRW=57q#)bwa1_lOZmS$!KhDK&4=H|wxriK>a"
    "WHRSufQJUq9U5R)GJ+fncPDas6u@vfdOkqcjhq0*QFOK-=|)Sz=!PICA}JI@E+QL(k#f<^K~4yQDCPt)GGHb^bnVD-$&aG_8j^M#"
    "en1XlIaIru7zjjufHxbP4lJoK>%w)iq0y5WA@mO>2o2Q74x+nRAbdzEz{&>E!v<ClQ40WRP6jU"
)


def write(path: Path, text: str) -> Path:
    path.write_bytes(zlib.decompress(base64.b85decode(text)))
    return path


@pytest.mark.parametrize("text", [ZIPPED, LEGACY], ids=["zipped", "legacy"])
def test_tensors_come_back(tmp_path: Path, text: str) -> None:
    found = load_state_dict(write(tmp_path / "weights.pth", text))
    assert list(found) == ["a", "b", "n"]
    np.testing.assert_array_equal(found["a"], np.arange(6, dtype=np.float32).reshape(2, 3).T)
    np.testing.assert_array_equal(found["b"], np.array([1.5, -2.0], np.float16))
    assert found["b"].dtype == np.float16
    assert found["n"] == 7


def test_nothing_in_a_file_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ModelError, match=r"it names (builtins|__builtin__)\.print, which is no part of a tensor"):
        load_state_dict(write(tmp_path / "weights.pth", HOSTILE))
    assert "run" not in capsys.readouterr().out


@pytest.mark.parametrize("content", [b"", b"no pickle", b"\x80\x02K\x01."])
def test_damaged_files(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "weights.pth").write_bytes(content)
    with pytest.raises(ModelError, match=r"weights\.pth holds no weights that torch\.save wrote"):
        load_state_dict(tmp_path / "weights.pth")
    with pytest.raises(ModelError, match=r"none\.pth does not exist"):
        load_state_dict(tmp_path / "none.pth")


def test_other_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"weight 'fc\.weight' is missing: give the FID weights"):
        inception_fid(write(tmp_path / "weights.pth", ZIPPED))


def test_average_pools_leave_padding_out() -> None:
    ones = tf.ones((1, 5, 5, 1))
    np.testing.assert_allclose(_average_pool(ones), ones)


def test_resize_is_tensorflow_1s() -> None:
    """Pixel i of the result lies at i·(old/new) of the old grid, with no offset of half a pixel and no smoothing."""
    row = np.array([0.0, 10.0, 20.0, 40.0], np.float32)
    image = np.tile(row, (4, 1))[np.newaxis, :, :, np.newaxis]
    places = np.minimum(np.arange(299) * (4 / 299), 3)
    np.testing.assert_allclose(resize(image)[0, 7, :, 0], np.interp(places, range(4), row), atol=1e-3)
